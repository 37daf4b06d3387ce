package kernel

// Cross sets out to the cross product of a and b along axis, which has size 3. a and b broadcast
// to out. Integers wrap around.
func Cross(out, a, b View, axis int) error {
	a, err := a.Broadcast(out.Shape)
	if err != nil {
		return err
	}
	if b, err = b.Broadcast(out.Shape); err != nil {
		return err
	}
	c := newChain(out)
	c.compute = accumulators[classes[out.DType]]
	whole := c.temp(out.Shape) // a result may share memory with a factor
	for i := range int64(3) {
		j, k := (i+1)%3, (i+2)%3
		part := whole.Select(axis, i)
		c.mul(part, a.Select(axis, j), b.Select(axis, k))
		c.set(part, Addcmul, []Number{Whole(-1)}, Of(part), Of(a.Select(axis, k)), Of(b.Select(axis, j)))
	}
	c.set(out, Identity, nil, Of(whole))
	return c.end()
}
