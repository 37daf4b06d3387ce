// Package class holds the classes of errors that packages share which do not import each other:
// package acl shows them to users as acl.ErrInvalidArgument and so on; packages cshim, below it,
// and hccl/world, which imports nothing of CANN, have errors that match them.
//
//	var ErrRankLost = class.Of(class.ErrPeerLost, "a rank was lost")
//
//	errors.Is(world.ErrRankLost, acl.ErrPeerLost) // true
//
// A class that only package acl and the packages above it need belongs in package acl.
package class
