package main

import (
	"errors"
	"strings"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/keys"
	"example.com/marketdata/internal/cmdline"
)

// initCmd makes a store with its identity and a first key.
type initCmd struct {
	storeFlag
	Name string `default:"first" help:"Name of the first key, which says whose key it is."`
}

func (c *initCmd) Run(e *env) error {
	if err := e.mayShow(); err != nil {
		return err
	}
	store, err := c.makeStore(e)
	if err != nil {
		return err
	}
	for _, key := range []artifacts.Key{artifacts.IdentityKey, artifacts.CurrentKey, artifacts.KeysKey} {
		if _, _, err := store.Get(e.ctx, key, key.Limit()); err == nil {
			return cmdline.Wrong("--store %s: there is a store already, with %s; builder status shows it, "+
				"and builder keys create makes further keys", c.Store, key)
		} else if !errors.Is(err, artifacts.ErrNotFound) {
			return err
		}
	}
	registry := &keys.Registry{Store: store} // creating the first key writes the identity, too
	request := keys.Request{Name: c.Name, Rate: keys.DefaultRate, Burst: keys.DefaultBurst}
	_, err = registry.CreateAll(e.ctx, []keys.Request{request}, func(made []keys.Created) error {
		return e.print("%s", made[0].Key)
	})
	if err != nil {
		return err
	}
	quoted := "'" + strings.ReplaceAll(c.Store, "'", `'\''`) + "'"
	e.log.Info("made the store and a key, which is not shown again", "store", c.Store, "name", c.Name)
	e.log.Info("next: builder run --store " + quoted + " --source SOURCE; sim: is a simulated market")
	e.log.Info("then: edge --store " + quoted + "; its board is at http://127.0.0.1:8080/")
	return nil
}
