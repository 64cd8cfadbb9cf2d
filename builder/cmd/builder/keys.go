package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/durable"
)

// keysCmd groups the commands for API keys (INTERFACE.md, "Keys").
type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Create a key and print it, once."`
	List   keysListCmd   `cmd:"" help:"List the names, ids and limits of all keys, but not the keys themselves."`
	Revoke keysRevokeCmd `cmd:"" help:"Revoke a key for good."`
	Rotate keysRotateCmd `cmd:"" help:"Create a successor to a key, which expires after an overlap."`

	Restore keysRestoreCmd `cmd:"" help:"Put back a key set that the store has lost."`
}

type keysCreateCmd struct {
	storeFlag
	Name      string          `required:"" help:"Name that says whose key it is. It need not be unique."`
	Rate      *int            `placeholder:"N" help:"Requests a second; by default ${rate}, with --query ${queryRate}."`
	Burst     *int            `placeholder:"N" help:"Requests in a burst; by default ${burst}, with --query ${queryBurst}."`
	Query     bool            `help:"Let spreadsheets send the key as ?key=… to CSV paths, where everyone who can see the sheet can read it. Give --expires, too."`
	Expires   *cmdline.Moment `placeholder:"T" help:"When the key expires; by default never."`
	Count     *int            `placeholder:"N" help:"Make N keys in one step, at most ${maxCount}, with the names NAME-01, NAME-02 and so on."`
	Out       string          `placeholder:"FILE" help:"Write the keys to this new file, one a line, readable by its owner alone, instead of printing them."`
	Overwrite bool            `help:"Replace the file of --out, and whatever keys are in it."`
	JSON      bool            `help:"Print the key as one JSON object, with --count an array of them, also with --out."`
}

func (c *keysCreateCmd) Validate() error {
	if c.Expires != nil && !c.Expires.After(time.Now()) {
		return fmt.Errorf("--expires %s: want a future time, otherwise the key would never be in force",
			c.Expires.Format(time.RFC3339))
	}
	if c.Count != nil && (*c.Count < 1 || *c.Count > keys.MaxCount) {
		return fmt.Errorf("--count %d: want 1 to %d", *c.Count, keys.MaxCount)
	}
	if c.Overwrite && c.Out == "" {
		return errors.New("--overwrite: give the file, --out FILE")
	}
	return c.requests()[0].Check()
}

func (c *keysCreateCmd) requests() []keys.Request {
	req := keys.Request{Name: c.Name, Rate: keys.DefaultRate, Burst: keys.DefaultBurst, Query: c.Query}
	if c.Query {
		req.Rate, req.Burst = keys.QueryRate, keys.QueryBurst
	}
	if c.Rate != nil {
		req.Rate = *c.Rate
	}
	if c.Burst != nil {
		req.Burst = *c.Burst
	}
	if c.Expires != nil {
		req.Expires = c.Expires.Time
	}
	if c.Count == nil {
		return []keys.Request{req}
	}
	return req.Numbered(*c.Count)
}

func (c *keysCreateCmd) Run(e *env) error {
	if err := c.mayWriteFile(); err != nil { // before a store is made
		return err
	}
	if c.Out == "" {
		if err := e.mayShow(); err != nil {
			return err
		}
	}
	registry, err := c.registry(e, c.makeStore)
	if err != nil {
		return err
	}
	saved := false
	made, err := registry.CreateAll(e.ctx, c.requests(), func(made []keys.Created) error {
		err := c.writeFile(made)
		switch {
		case err != nil:
		case c.JSON && c.Count != nil:
			err = e.printJSON(made)
		case c.Out == "" || c.JSON:
			err = e.printKeys(made, c.JSON)
		}
		saved = err == nil
		return err
	})
	switch {
	case err != nil && saved:
		return fmt.Errorf("%w; %s", err, unsure(c.Out))
	case err != nil:
		return err
	case c.Out != "" && !c.JSON:
		e.succeeded("%s in %s; builder keys list shows names and ids", count(len(made), "new key"), c.Out)
	case !c.JSON:
		e.logKeys(made...)
	}
	return nil
}

// unsure says how to find out, after an error, whether the new keys are in force.
func unsure(out string) string {
	return fmt.Sprintf("keys list shows whether the keys in %s are in force", cmp.Or(out, "the output"))
}

// mayShow returns an error if a key printed to standard output would be lost.
func (e *env) mayShow() error {
	if cmdline.Discards(e.stdout) {
		return fmt.Errorf("standard output is closed or %s: a key is shown once, and would be lost", os.DevNull)
	}
	return nil
}

func (c *keysCreateCmd) mayWriteFile() error {
	info, err := os.Stat(c.Out)
	switch {
	case c.Out == "", err != nil: // writing fails if c.Out cannot be a file
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("--out %s: %w; want the name of a new file", c.Out, durable.ErrNotRegular)
	case !c.Overwrite:
		return fmt.Errorf("--out %s: %w, and its keys would be lost; name a new file, or give --overwrite", c.Out,
			fs.ErrExist)
	}
	return nil
}

func (c *keysCreateCmd) writeFile(made []keys.Created) error {
	if c.Out == "" {
		return nil
	}
	var text strings.Builder
	for _, k := range made {
		fmt.Fprintln(&text, k.Key)
	}
	write := durable.CreateFile
	if c.Overwrite {
		write = durable.WriteFile
	}
	if err := write(c.Out, strings.NewReader(text.String()), 0o600); err != nil {
		return fmt.Errorf("--out %s: %w", c.Out, err)
	}
	return nil
}

func (e *env) printKeys(made []keys.Created, asJSON bool) (err error) {
	for _, k := range made {
		if asJSON {
			err = errors.Join(err, e.printJSON(k))
		} else {
			err = errors.Join(err, e.print("%s", k.Key))
		}
	}
	return err
}

func (e *env) logKeys(made ...keys.Created) {
	for _, k := range made {
		e.log.Info("created a key; it is not shown again, and edges know it within ten seconds", "id", k.ID,
			"name", k.Name, "rate", k.Rate, "burst", k.Burst, "expires", timeOr(k.Expires, "never"))
	}
}

// timeOr formats t, or returns placeholder if t is nil.
func timeOr(t *time.Time, placeholder string) string {
	if t == nil {
		return placeholder
	}
	return t.Format(time.RFC3339)
}

func (f *storeFlag) registry(e *env, open func(*env) (artifacts.Store, error)) (*keys.Registry, error) {
	store, err := open(e)
	if err != nil {
		return nil, err
	}
	return &keys.Registry{Store: store}, nil
}

type keysListCmd struct {
	storeFlag
	JSON bool `help:"Print an array of JSON objects."`
}

func (c *keysListCmd) Run(e *env) error {
	registry, err := c.registry(e, c.openStore)
	if err != nil {
		return err
	}
	list, err := registry.List(e.ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return e.printJSON(list)
	}
	if len(list) == 0 {
		e.print("the store has no keys; builder keys create makes one")
		return nil
	}
	t := &table{}
	t.row(e.paint.Bold, "ID", "A SECOND", "BURST", "CREATED", "EXPIRES", "REVOKED", "QUERY", "NAME")
	for _, k := range list {
		var paint func(string) string
		if k.Revoked != nil || k.Expires != nil && !k.Expires.After(time.Now()) {
			paint = e.paint.Yellow
		}
		t.row(paint, k.ID, comma(k.Rate), comma(k.Burst), k.Created.Format(time.RFC3339), timeOr(k.Expires, "never"),
			timeOr(k.Revoked, "no"), map[bool]string{true: "yes", false: "no"}[k.Query], k.Name)
	}
	return t.print(e.stdout)
}

type keysRevokeCmd struct {
	storeFlag
	ID  string `arg:"" optional:"" help:"The key's id, as keys list shows it."`
	All bool   `help:"Revoke every key. If the store has lost its key set, begin with an empty one."`
}

func (c *keysRevokeCmd) Validate() error {
	if c.All == (c.ID != "") {
		return errors.New("want the id of a key, or --all")
	}
	return nil
}

func (c *keysRevokeCmd) Run(e *env) error {
	registry, err := c.registry(e, c.openStore)
	if err != nil {
		return err
	}
	if c.All {
		n, err := registry.RevokeAll(e.ctx)
		if err == nil {
			e.print("no key is in force; revoked: %s; edges follow within ten seconds", comma(n))
		}
		return err
	}
	k, err := registry.Revoke(e.ctx, c.ID)
	if err != nil {
		return err
	}
	e.print("key %s (%s) is revoked since %s; edges follow within ten seconds", k.ID, k.Name,
		timeOr(k.Revoked, "never"))
	return nil
}

type keysRotateCmd struct {
	storeFlag
	ID      string        `arg:"" help:"The key's id, as keys list shows it."`
	Overlap time.Duration `default:"${overlap}" help:"How long the old key stays in force."`
	JSON    bool          `help:"Print the new key as one JSON object."`
}

func (c *keysRotateCmd) Run(e *env) error {
	registry, err := c.registry(e, c.openStore)
	if err != nil {
		return err
	}
	if err := e.mayShow(); err != nil {
		return err
	}
	shown := false
	made, err := registry.Rotate(e.ctx, c.ID, c.Overlap, func(made keys.Created) error {
		err := e.printKeys([]keys.Created{made}, c.JSON)
		shown = err == nil
		return err
	})
	switch {
	case err != nil && shown:
		return fmt.Errorf("%w; %s", err, unsure(""))
	case err == nil && !c.JSON:
		e.logKeys(made)
	}
	return err
}

type keysRestoreCmd struct {
	storeFlag
	From  []string `required:"" sep:"none" placeholder:"STORE|DIR" help:"The cache folder of an edge, a folder with a copy of its file keys, or a backup: the newest key set wins, and keys that are revoked in any of them stay revoked. Repeatable: give the folder of every edge."`
	Above uint64   `former:"seen" placeholder:"N" help:"The highest number of a key set that edges have seen, if none has a copy: 'moved back from N' in /status."`
}

func (c *keysRestoreCmd) Run(e *env) error {
	registry, err := c.registry(e, c.openStore)
	if err != nil {
		return err
	}
	_, trust, err := c.keys()
	if err != nil {
		return err
	}
	if c.Above > artifacts.MaxNumber/2 {
		return fmt.Errorf("--above %d: numbers of key sets are below 2^52", c.Above)
	}
	copies, err := e.openCopies("from", c.From, trust)
	if err != nil {
		return err
	}
	sets, older := make([]*artifacts.KeySet, len(copies)), c.Above == 0
	for i, from := range copies {
		if sets[i], err = keys.Copied(e.ctx, from); err != nil {
			return fmt.Errorf("--from %s: %w", from.Name, err)
		}
		// A backup has an identity; an edge's cache folder has none.
		_, _, err := from.Get(e.ctx, artifacts.IdentityKey, artifacts.MaxPointerSize)
		older = older && !errors.Is(err, artifacts.ErrNotFound)
	}
	if older {
		return fmt.Errorf("--from %s is a backup, and keys that were revoked since would work again: give each edge's cache"+
			" folder, too; only if no edge has a key set, the number of the last one as --above", c.From[0])
	}
	set, err := registry.Restore(e.ctx, sets, c.Above)
	if err == nil {
		e.print("key set %d is in force, with %s", set.Number, count(len(set.Keys), "key"))
	}
	return err
}
