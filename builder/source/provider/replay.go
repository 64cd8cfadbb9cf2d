package provider

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"example.com/marketdata/builder/source"
)

// replay is the backend that answers from a recording, without calling the provider.
type replay struct {
	folder *folder
	log    *slog.Logger
}

func openReplay(dir, source string, log *slog.Logger) (*replay, error) {
	_, err := os.Stat(dir)
	if err == nil {
		var f *folder
		if f, err = openFolder(dir, source); err == nil {
			return &replay{f, log}, nil
		}
	}
	return nil, fmt.Errorf("replay: %w", err)
}

func (r *replay) collect(_ context.Context, ask func(Round) error) (*outcome, error) {
	round := &replayRound{r, newOutcome(r.folder.index.Time)}
	err := ask(round)
	return &round.outcome, err
}

func (*replay) use() *source.Quota { return nil }

func (*replay) memory() *Memory { return nil }

type replayRound struct {
	*replay
	outcome
}

// Lists implements Round.
func (r *replayRound) Lists(ctx context.Context, lists ...List) error {
	for i := range lists {
		l := &lists[i]
		l.prepare()
		a, err := r.get(ctx, &l.Part)
		if ctx.Err() != nil {
			return err
		}
		p := source.Part{Name: l.Name, State: source.PartNew, Every: l.Every}
		if err != nil {
			p.State, p.Reason = source.PartMissing, err.Error()
			r.parts = append(r.parts, p)
			r.log.Info("provider: no rows of a part", "part", l.Name, "err", err)
			if l.Required || !errors.Is(err, errNotRecorded) && !errors.Is(err, errEmpty) {
				return fmt.Errorf("%s: %w", l.Name, err)
			}
			continue
		}
		p.Fetched, p.Quotes = a.Fetched, l.Required
		r.parts = append(r.parts, p)
		*l.Into = a.Rows()
		l.eachTime(a, func(t time.Time) {
			if l.Required && t.After(r.newest) {
				r.newest = t
			}
		})
	}
	return nil
}

// Each implements Round.
func (r *replayRound) Each(ctx context.Context, kind string, ids []string,
	part func(string) Part) (map[string]*Answer, error) {
	parts := partsOf(kind, ids, part)
	answers := make(map[string]*Answer, len(ids))
	for i := range parts {
		a, err := r.get(ctx, &parts[i])
		switch {
		case ctx.Err() != nil:
			return nil, err
		case err == nil:
			answers[ids[i]] = a
		case !errors.Is(err, errNotRecorded):
			return nil, fmt.Errorf("%s: %w", parts[i].Name, err)
		}
	}
	r.parts = append(r.parts, source.Part{
		Name: kind + "/*", State: source.PartNew, Reason: fmt.Sprintf("%d of %d recorded", len(answers), len(parts)),
	})
	return answers, nil
}

var errNotRecorded = fmt.Errorf("not in the recording: %w", fs.ErrNotExist)

func (r *replayRound) get(ctx context.Context, p *Part) (*Answer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a, err := r.folder.load(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNotRecorded
	}
	if err == nil {
		r.used[p.Name] = usedAnswer{p, a}
	}
	return a, err
}
