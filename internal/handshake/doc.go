// Package handshake makes connections whose two ends have proved to each other that they know a
// shared secret.
//
//	l := handshake.Listen(listener, "cann/xy/1", secret, refused) // one side
//	defer l.Close()
//	conn, err := l.Accept(ctx)                                   // a peer that knows the secret
//	who := conn.Hello()                                          // how it introduces itself
//	err = conn.Send(answer)
//
//	conn, err := handshake.Dial(ctx, address, "cann/xy/1", secret, hello) // the other side
//	answer, err := conn.Receive(1 << 10)
//
// A connection without the secret is refused before anything that it sends is parsed. Handshakes run
// concurrently, each with a time limit. When too many are unfinished, the oldest of the source that
// has the most of them is closed, so silent connections cannot block other peers, however many there
// are. A refused connection is told so and then treated like a silent one: closing it at once would
// only bring it back. The size of every message is limited.
//
// Connections are TLS 1.3, of crypto/tls. The certificates of both ends are derived from the secret: there is no
// authority, and each end compares the other's key with the one that the secret gives. What is changed, repeated, left out or
// sent by somebody else is an error. Each end makes and verifies one signature of Ed25519 besides the exchange of keys, so that
// ranks join in 2.0 to 2.5 times the processor time that a handshake over one shared key took; data moves as fast. The package
// does not interpret the
// messages; hccl/world and the emulator's collectives define them.
package handshake
