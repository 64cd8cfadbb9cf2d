package main

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/internal/cmdline"
)

// keysCmd groups the commands on API keys (INTERFACE.md, "Keys").
type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Create a key and print it, once."`
	List   keysListCmd   `cmd:"" help:"List all keys, without the keys themselves."`
	Revoke keysRevokeCmd `cmd:"" help:"Put a key out of force for good."`
	Rotate keysRotateCmd `cmd:"" help:"Create a successor to a key, which expires after an overlap."`

	Restore keysRestoreCmd `cmd:"" help:"Put back a key set that the store has lost."`
}

type keysCreateCmd struct {
	storeFlag
	Name    string          `required:"" help:"Whose key it is; need not be unique."`
	Rate    int             `default:"${rate}" help:"Requests a second."`
	Burst   int             `default:"${burst}" help:"Requests at once."`
	Expires *cmdline.Moment `placeholder:"T" help:"When the key goes out of force; by default never."`
	JSON    bool            `help:"Print the key as one JSON object."`
}

func (c *keysCreateCmd) Validate() error {
	if c.Expires != nil && !c.Expires.After(time.Now()) {
		return fmt.Errorf("--expires %s: want a time to come, the key would never be in force",
			c.Expires.Format(time.RFC3339))
	}
	return c.request().Check()
}

func (c *keysCreateCmd) request() keys.Request {
	req := keys.Request{Name: c.Name, Rate: c.Rate, Burst: c.Burst}
	if c.Expires != nil {
		req.Expires = c.Expires.Time
	}
	return req
}

func (c *keysCreateCmd) Run(e *env) error {
	registry, err := c.registry(e, c.makeStore)
	if err != nil {
		return err
	}
	made, err := registry.Create(e.ctx, c.request())
	if err != nil {
		return err
	}
	return e.printKey(made, c.JSON)
}

func (e *env) printKey(made keys.Created, asJSON bool) error {
	if asJSON {
		return e.printJSON(made)
	}
	e.print("%s", made.Key)
	e.log.Info("created a key; it is not shown again", "id", made.ID, "name", made.Name, "rate", made.Rate, "burst",
		made.Burst, "expires", or(made.Expires, "never"))
	return nil
}

// or formats a time, or returns none for nil.
func or(t *time.Time, none string) string {
	if t == nil {
		return none
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
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tRATE\tBURST\tCREATED\tEXPIRES\tREVOKED\tNAME")
	for _, k := range list {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\n", k.ID, k.Rate, k.Burst, k.Created.Format(time.RFC3339),
			or(k.Expires, "never"), or(k.Revoked, "no"), k.Name)
	}
	return w.Flush()
}

type keysRevokeCmd struct {
	storeFlag
	ID  string `arg:"" optional:"" help:"The key's id, as list shows it."`
	All bool   `help:"Revoke every key. Also gives up a key set that the store has lost."`
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
			e.print("no key is in force; %d are revoked", n)
		}
		return err
	}
	k, err := registry.Revoke(e.ctx, c.ID)
	if err != nil {
		return err
	}
	e.print("key %s (%s) is revoked since %s", k.ID, k.Name, or(k.Revoked, "never"))
	return nil
}

type keysRotateCmd struct {
	storeFlag
	ID      string        `arg:"" help:"The key's id, as list shows it."`
	Overlap time.Duration `default:"${overlap}" help:"How long the old key stays in force."`
	JSON    bool          `help:"Print the new key as one JSON object."`
}

func (c *keysRotateCmd) Run(e *env) error {
	registry, err := c.registry(e, c.openStore)
	if err != nil {
		return err
	}
	made, err := registry.Rotate(e.ctx, c.ID, c.Overlap)
	if err != nil {
		return err
	}
	return e.printKey(made, c.JSON)
}

type keysRestoreCmd struct {
	storeFlag
	From string `required:"" placeholder:"STORE|DIR" help:"A backup, or the cache folder of an edge."`
	Seen uint64 `placeholder:"N" help:"The highest number of a key set that edges have seen: 'moved back from N' in /status."`
}

func (c *keysRestoreCmd) Run(e *env) error {
	registry, err := c.registry(e, c.openStore)
	if err != nil {
		return err
	}
	from, err := e.openCopy("from", c.From)
	if err != nil {
		return err
	}
	b, _, err := from.Get(e.ctx, artifacts.KeysKey, artifacts.MaxKeySetSize)
	if err != nil {
		return fmt.Errorf("--from %s: %w", c.From, err)
	}
	if _, trust, err := c.keys(); err != nil {
		return err
	} else if len(trust) > 0 {
		if err := trust.Verify(artifacts.KeysKey, b); err != nil {
			return fmt.Errorf("--from %s: %w", c.From, err)
		}
	}
	set, err := artifacts.ParseKeySet(b)
	if err != nil {
		return fmt.Errorf("--from %s: %w", c.From, err)
	}
	if c.Seen > artifacts.MaxNumber/2 {
		return fmt.Errorf("--seen %d: numbers of key sets are below 2^52", c.Seen)
	}
	n, err := registry.Restore(e.ctx, set, c.Seen)
	if err == nil {
		e.print("put back %d keys of key set %d", n, set.Number)
	}
	return err
}
