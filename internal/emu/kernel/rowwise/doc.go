// Package rowwise has kernels along dimensions: reductions, scans, softmax, norms, gates of feed-forward layers, rotary
// embedding, losses, distances and the updates of optimisers.
//
// Most are a [Chain], a sequence of elementwise kernels and reductions over temporaries. Those that run in every step of a
// model have a loop of their own in C: to add one, write a static function in rows.h (or reduce.h, scan.h), declare its
// operands in rows_op.h, enter it in table.h and body.h, and call it from Go where the operands have a form that it
// takes. Test it against the chain or a definition in double precision, with kerneltest.EachVariant.
package rowwise
