// Package bridge is how packages aclnn and hccl reach the part of package acl that queues their
// work and that users of acl do not see. Package acl sets the variables, and hccl the one that finds
// communicators; the others call them. It holds no behaviour, and nothing else belongs here.
//
//	st, user, err := bridge.StreamOf(stream) // of an *acl.Stream
//	err = st.Launch(&launch)
package bridge
