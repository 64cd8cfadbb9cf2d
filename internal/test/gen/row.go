package gen

import (
	"strconv"
	"strings"
)

// A member is one field of a row. Its value is JSON.
type member struct{ name, value string }

// row writes members as one JSON object, in any order, sometimes with white space and unknown
// fields.
func (d draw) row(members []member) string {
	comma, colon, open, end := ",", ":", "{", "}"
	if d.chance(10) {
		comma, colon, open, end = " ,\t", " : ", " { ", " } "
	}
	if d.chance(20) {
		unknown := []member{
			{"unknown", `{"key":["` + `\ud83d\ude00` + `",null,1e5]}`}, {"Key", `"other"`}, {"ID", "7"}, {"", `""`},
			{"PRICE", `"x"`}, {"comment", "null"},
		}
		members = append(members, pick(d, unknown))
	}
	if d.chance(30) {
		shift := d.upTo(len(members) - 1)
		members = append(members[shift:len(members):len(members)], members[:shift]...)
	}
	var b strings.Builder
	b.WriteString(open)
	for i, m := range members {
		if i > 0 {
			b.WriteString(comma)
		}
		b.WriteString(d.literal(m.name) + colon + m.value)
	}
	b.WriteString(end)
	return b.String()
}

// optional appends a member, or, if its value is the default, omits it or writes null.
func (d draw) optional(members []member, name, value, otherwise string) []member {
	if value == otherwise {
		switch d.upTo(2) {
		case 0:
			return members
		case 1:
			return append(members, member{name, "null"})
		}
		if otherwise == "null" {
			return members
		}
	}
	return append(members, member{name, value})
}

// with returns a copy of members in which the named member has another value.
func with(members []member, name, value string) []member {
	changed := make([]member, 0, len(members)+1)
	for _, m := range members {
		if m.name != name {
			changed = append(changed, m)
		}
	}
	return append(changed, member{name, value})
}

// notRows are lines that are not JSON objects.
var notRows = []string{
	"x", "{", "}", `{"key":"a"`, `{"key":"a",}`, `{'key':'a'}`, "[]", `["key"]`, "null", "5", `"key"`, "true",
	`{"key":"a"} {}`, `{"key":"a"}x`,
	"{\"key\":\"\xff\",\"name\":\"n\",\"symbol\":\"s\",\"slug\":\"invalid\"}",
	`{"key":"lone","name":"\ud800","symbol":"s","slug":"lone"}`,
	`{"key":"lone2","name":"n","symbol":"s","slug":"lone2","unknown":"\udc00x"}`,
	`{"key":"lone3","name":"\ud800\u0041","symbol":"s","slug":"lone3"}`,
	`{"key":"raw","name":"` + "\x01" + `","symbol":"s","slug":"raw"}`,
	`{"key":"e","name":"\x","symbol":"s","slug":"e"}`,
	`{"key":"nan","name":"n","symbol":"s","slug":"nan","unknown":NaN}`, `{key:"a"}`, "{}",
}

// file joins the lines of a file.
func (d draw) file(lines []string) string {
	end := "\n"
	var b strings.Builder
	if d.chance(10) {
		end = "\r\n"
	}
	if d.chance(10) {
		b.WriteString("\uFEFF")
	}
	for i, line := range lines {
		if d.chance(2) {
			b.WriteString(pick(d, []string{"", " ", "\t"}) + end)
		}
		b.WriteString(line)
		if i < len(lines)-1 || !d.chance(10) {
			b.WriteString(end)
		}
	}
	return b.String()
}

func integer(n int64) string { return strconv.FormatInt(n, 10) }

// insert inserts a line at a random position.
func (d draw) insert(lines []string, line string) []string {
	at := d.upTo(len(lines))
	lines = append(lines, "")
	copy(lines[at+1:], lines[at:])
	lines[at] = line
	return lines
}
