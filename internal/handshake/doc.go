// Package handshake makes connections whose two ends have proved to each other that they know a
// shared secret.
//
//	l := handshake.Listen(listener, "CANNXY01", secret, refused) // one side
//	defer l.Close()
//	conn, err := l.Accept(ctx)                                   // a peer that knows the secret
//	who := conn.Hello()                                          // how it introduces itself
//	err = conn.Send(answer)
//
//	conn, err := handshake.Dial(ctx, address, "CANNXY01", secret, hello) // the other side
//	answer, err := conn.Receive(1 << 10)
//
// A connection without the secret is closed before anything that it sends is parsed. The size of
// every message, the time of every handshake and the number of concurrent handshakes are limited,
// so silent connections cannot block other peers.
//
// Frames are authenticated and numbered: a forged, changed or repeated frame is an error. Nothing
// is encrypted. The package does not interpret the messages; hccl/world and the emulator's
// collectives define them.
package handshake
