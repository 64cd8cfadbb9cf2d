package provider

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxUnused is how long the answer for an individual item stays cached without being requested
// again.
const maxUnused = 90 * 24 * time.Hour

// cache keeps the last good answers and the failing parts in memory. If it has a folder, it also
// keeps them there.
type cache struct {
	answers map[string]*Answer
	failing map[string]failure // failures of postponed parts, by part
	folder  *folder            // nil if there is none
	log     *slog.Logger
}

// openCache returns the cache in dir. If dir is "", the cache is only in memory. A folder that
// cannot be read is emptied.
func openCache(dir, source string, log *slog.Logger) *cache {
	c := &cache{answers: map[string]*Answer{}, failing: map[string]failure{}, log: log}
	if dir != "" {
		var err error
		if c.folder, err = openFolder(dir, source); err != nil {
			log.Warn("provider: the cache cannot be read and is emptied", "cache", dir, "err", err)
			c.folder = emptyFolder(dir, source)
		}
		c.failing = c.folder.index.Failing
	}
	return c
}

// answer returns the last good answer for a part, or nil if there is none.
func (c *cache) answer(p *Part) *Answer {
	if a := c.answers[p.Name]; a != nil || c.folder == nil {
		return a
	}
	if _, ok := c.folder.index.Parts[p.Name]; !ok {
		return nil
	}
	a, err := c.folder.load(p)
	if err != nil {
		c.log.Warn("provider: left out of the cache", "part", p.Name, "err", err)
		delete(c.folder.index.Parts, p.Name)
		return nil
	}
	c.answers[p.Name] = a
	return a
}

// store caches the last good answer for a part. previous is the answer that it replaces, which may
// be nil.
func (c *cache) store(p *Part, a, previous *Answer) {
	c.answers[p.Name] = a
	if c.folder == nil {
		return
	}
	sameBody := func(x, y Page) bool { return string(x.Body) == string(y.Body) }
	if previous != nil && slices.EqualFunc(previous.Pages, a.Pages, sameBody) && c.folder.renew(p, a.Fetched) {
		return
	}
	if err := c.folder.save(p, a, true); err != nil {
		c.log.Warn("provider: answer not cached", "part", p.Name, "err", err)
	}
}

// reduce applies Part.Reduce to an answer that stays in memory.
func (c *cache) reduce(p *Part, a *Answer) {
	if p.Reduce == nil || a.reduced || c.answers[p.Name] != a {
		return
	}
	reduced := *a
	reduced.reduced = true
	reduced.Pages = slices.Clone(a.Pages)
	for i := range reduced.Pages {
		if body, err := at(reduced.Pages[i].Body, p.At); err == nil {
			reduced.Pages[i].Body = within(p.At, p.Reduce(body))
		}
	}
	c.answers[p.Name] = &reduced
}

// forget drops the parts of a kind that have not been requested for maxUnused.
func (c *cache) forget(kind string, now time.Time) {
	maps.DeleteFunc(c.failing, func(name string, f failure) bool {
		return strings.HasPrefix(name, kind+"/") && now.Sub(f.Last) > maxUnused
	})
	maps.DeleteFunc(c.answers, func(name string, a *Answer) bool {
		old := strings.HasPrefix(name, kind+"/") && now.Sub(a.Fetched) > maxUnused
		if old && c.folder != nil {
			delete(c.folder.index.Parts, name)
		}
		return old
	})
}

// commit writes the folder's index, and then removes files that it no longer names.
func (c *cache) commit(t time.Time) {
	if c.folder == nil {
		return
	}
	err := c.folder.commit(t)
	if err == nil {
		err = c.folder.sweep()
	}
	if err != nil {
		c.log.Warn("provider: cache not written, or old answers not removed", "err", err)
	}
}
