// Package bridge is how packages aclnn, hccl and ops reach the part of package acl that queues their
// work and that users of acl do not see. acl.Stream and acl.Buffer embed a Stream and a Buffer of
// this package, whose methods are unexported: StreamOf and MemoryOf find them, and nobody else does.
// The types are interfaces that package acl implements and a few records; nothing else belongs here.
//
//	queue, user, err := bridge.StreamOf(st) // of an *acl.Stream
//	err = queue.Launch(&launch)
package bridge
