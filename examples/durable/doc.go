// Package durable writes files that are whole or not there: a program that is killed while it writes leaves the file
// of before.
//
//	err := durable.Write("run/config.json", bytes.NewReader(text))
package durable
