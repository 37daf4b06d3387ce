// Package apitest starts a server of package api with a small model for a test: a model of bytes with two
// layers, trained for two steps, so that its answers mean nothing but are always the same.
//
//	s := apitest.Start(t, engine.Options{Blocks: 32, BlockSize: 16}, nil)
//	answer, err := s.HTTP.Post(s.URL+"/v1/completions", "application/json", strings.NewReader(body))
package apitest
