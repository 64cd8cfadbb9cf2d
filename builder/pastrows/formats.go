package pastrows

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// maxLine is the maximum length of an NDJSON line, in bytes.
const maxLine = 1 << 20

// csv reads a table in the format of RFC 4180 whose first line names the columns. Cells are
// separated by commas, or by semicolons or tabs if the first line uses those instead.
func (r *Rows) csv(in io.Reader) error {
	buf := bufio.NewReaderSize(in, 64<<10)
	first, err := buf.Peek(4 << 10)
	if len(first) == 0 {
		if err == io.EOF {
			return errors.New("empty: want a first line with the names of the columns")
		}
		return err
	}
	if err := isText(first); err != nil {
		return err
	}
	if bytes.HasPrefix(first, []byte("\xef\xbb\xbf")) {
		buf.Discard(3) // these bytes are buffered
	}
	line, _, _ := bytes.Cut(first, []byte("\n"))
	table := csv.NewReader(buf)
	table.FieldsPerRecord, table.ReuseRecord = -1, true
	for _, comma := range []byte{';', '\t'} {
		if bytes.IndexByte(line, ',') < 0 && bytes.IndexByte(line, comma) >= 0 {
			table.Comma = rune(comma)
		}
	}
	names, err := table.Read()
	if err != nil {
		return err
	}
	names = slices.Clone(names)
	at, err := r.header(names)
	if err != nil {
		return err
	}
	var values [fields][]byte
	for {
		cells, err := table.Read()
		if err == io.EOF {
			return nil
		}
		if broken, ok := errors.AsType[*csv.ParseError](err); ok {
			r.setAside(broken.Line, broken.Err)
			continue
		}
		if err != nil {
			return err
		}
		line, _ := table.FieldPos(0)
		if len(cells) != len(names) {
			r.setAside(line, fmt.Errorf("it has %d cells, and the first line names %d columns", len(cells), len(names)))
			continue
		}
		for f := range values {
			if values[f] = values[f][:0]; at[f] >= 0 {
				values[f] = append(values[f], strings.TrimSpace(cells[at[f]])...)
			}
		}
		if err := r.texts(line, &values); err != nil {
			return err
		}
	}
}

// ndjson reads one JSON object per line. Numbers may be strings. It ignores other members.
func (r *Rows) ndjson(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	var row struct {
		Key       json.RawMessage `json:"key"`
		Time      json.RawMessage `json:"time"`
		Price     json.RawMessage `json:"price"`
		MarketCap json.RawMessage `json:"market_cap"`
		Volume    json.RawMessage `json:"volume"`
	}
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if n == 1 {
			if err := isText(line); err != nil {
				return err
			}
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 {
			continue
		}
		row.Key, row.Time, row.Price, row.MarketCap, row.Volume = nil, nil, nil, nil, nil
		if err := json.Unmarshal(line, &row); err != nil {
			r.setAside(n, errors.New("want one JSON object a line"))
			continue
		}
		var values [fields][]byte
		for f, raw := range [fields]json.RawMessage{row.Key, row.Time, row.Price, row.MarketCap, row.Volume} {
			values[f] = plain(raw)
		}
		if err := r.texts(n, &values); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes", n+1, maxLine)
	}
	return lines.Err()
}

// plain returns the contents of a JSON string or number, or nil for null.
func plain(raw []byte) []byte {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var text string
	if raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return []byte(text)
	}
	return raw
}

// parquetBatch is the number of rows read in one call.
const parquetBatch = 1024

// parquet reads the columns key, time, price, market_cap and volume. They may have any type that
// can hold their values. For a DOUBLE, parquet uses the shortest decimal that converts back to the
// same number.
func (r *Rows) parquet(ctx context.Context, in io.ReaderAt, size int64) error {
	file, err := parquet.OpenFile(in, size)
	if err != nil {
		return err
	}
	var names []string
	var types []parquet.Node
	for _, f := range file.Schema().Fields() {
		if !f.Leaf() || f.Repeated() {
			names, types = append(names, ""), append(types, nil) // not a plain column
			continue
		}
		names, types = append(names, f.Name()), append(types, f)
	}
	at, err := r.header(names)
	if err != nil {
		return err
	}
	leaf := map[int]int{} // maps leaf columns to fields
	for f, i := range at {
		if i < 0 {
			continue
		}
		column, ok := file.Schema().Lookup(names[i])
		if !ok {
			return fmt.Errorf("column %q: not found", names[i])
		}
		leaf[column.ColumnIndex] = f
	}
	n := 0
	rows := make([]parquet.Row, parquetBatch)
	for _, group := range file.RowGroups() {
		if n, err = r.rowGroup(ctx, group, rows, n, func(v parquet.Value) (field int, node parquet.Node, ok bool) {
			f, ok := leaf[v.Column()]
			if !ok {
				return 0, nil, false
			}
			return f, types[at[f]], true
		}); err != nil {
			return err
		}
		if r.opts.Progress != nil {
			r.opts.Progress(r.Files[len(r.Files)-1], int64(n), file.NumRows())
		}
	}
	return nil
}

// rowGroup reads the rows of a group, whose first row is row n+1, and returns the number of the
// last row.
func (r *Rows) rowGroup(ctx context.Context, group parquet.RowGroup, rows []parquet.Row, n int,
	field func(parquet.Value) (int, parquet.Node, bool)) (last int, err error) {
	reader := group.Rows()
	defer func() { err = errors.Join(err, reader.Close()) }()
	for {
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		got, err := reader.ReadRows(rows)
		for _, row := range rows[:got] {
			n++
			var values [fields][]byte
			for _, v := range row {
				if f, node, ok := field(v); ok && !v.IsNull() {
					values[f] = parquetText(v, node)
				}
			}
			if err := r.texts(n, &values); err != nil {
				return n, err
			}
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// parquetText returns a value as text with the same meaning.
func parquetText(v parquet.Value, node parquet.Node) []byte {
	if logical := node.Type().LogicalType(); logical != nil {
		switch logical := logical.Value.(type) {
		case *format.DecimalType:
			return decimalText(v, int(logical.Scale))
		case *format.DateType:
			return time.Unix(int64(v.Int32())*86400, 0).UTC().AppendFormat(nil, time.DateOnly)
		case *format.TimestampType:
			return stampOf(v.Int64(), &logical.Unit).AppendFormat(nil, time.RFC3339Nano)
		}
	}
	switch v.Kind() {
	case parquet.Int32:
		return strconv.AppendInt(nil, int64(v.Int32()), 10)
	case parquet.Int64:
		return strconv.AppendInt(nil, v.Int64(), 10)
	case parquet.Float:
		return strconv.AppendFloat(nil, float64(v.Float()), 'g', -1, 32)
	case parquet.Double:
		return strconv.AppendFloat(nil, v.Double(), 'g', -1, 64)
	}
	return v.ByteArray()
}

// stampOf returns the time of a TIMESTAMP.
func stampOf(n int64, unit *format.TimeUnit) time.Time {
	switch unit.Value.(type) {
	case *format.MicroSeconds:
		return time.UnixMicro(n).UTC()
	case *format.NanoSeconds:
		return time.Unix(0, n).UTC()
	}
	return time.UnixMilli(n).UTC()
}

// decimalText formats a DECIMAL, which is an integer in units of 10^-scale. If the integer is
// stored as bytes, they are in two's complement.
func decimalText(v parquet.Value, scale int) []byte {
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default:
		b := v.ByteArray()
		n.SetBytes(b)
		if len(b) > 0 && b[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	}
	return fmt.Appendf(nil, "%de-%d", n, scale)
}
