package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/sampling"
)

// generate reads the prompt and writes new tokens until it has the requested number or draws a
// token that ends a text.
func generate(ctx context.Context, m *model.Model, o options, said speech, ends []int32, report io.Writer) (err error) {
	cache, err := m.NewCache(1, len(said.prompt)+o.tokens)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	s := sampling.New(o.sampling, said.prompt)
	start := time.Now()
	logits, err := m.Extend(ctx, cache, said.prompt)
	if err != nil {
		return err
	}
	read, start := time.Since(start), time.Now()
	extend := func(next int32) ([]float32, error) { return m.Extend(ctx, cache, []int32{next}) }
	if o.graph {
		d, err := m.NewDecoder(ctx, cache)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		extend = func(next int32) ([]float32, error) { return d.Next(ctx, []int32{next}) }
	}
	n := 0
	for {
		next, err := s.Next(logits)
		if err != nil {
			return err
		}
		if slices.Contains(ends, next) {
			break
		}
		if err := said.write(next); err != nil {
			return err
		}
		if n++; n == o.tokens {
			break
		}
		if logits, err = extend(next); err != nil {
			return err
		}
	}
	if err := said.end(); err != nil {
		return err
	}
	took := time.Since(start)
	_, err = fmt.Fprintf(report, "\n%d tokens read in %v, %d generated in %v: %.0f a second\n",
		len(said.prompt), read.Round(time.Microsecond), n, took.Round(time.Microsecond), float64(n)/took.Seconds())
	return err
}
