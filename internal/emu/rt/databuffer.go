package rt

// dataBuffer is an address with a size, as C programs hand them on together. It owns nothing.
type dataBuffer struct{ addr, size uint64 }

func (r *Runtime) dataBufferFunctions() table {
	get := func(part func(*dataBuffer) uint64) Func {
		return func(_ *Thread, a []uint64) uint64 {
			if b, ok := Lookup[*dataBuffer](&r.Handles, a[0]); ok {
				return part(b)
			}
			return 0
		}
	}
	return table{
		"aclCreateDataBuffer": func(_ *Thread, a []uint64) uint64 {
			return r.Handles.New(DataBufferKind, &dataBuffer{addr: a[0], size: a[1]})
		},
		"aclDestroyDataBuffer": func(t *Thread, a []uint64) uint64 {
			if _, ok := Lookup[*dataBuffer](&r.Handles, a[0]); !ok {
				return t.noDataBuffer("aclDestroyDataBuffer", a[0])
			}
			r.Handles.Delete(a[0])
			return 0
		},
		"aclUpdateDataBuffer": func(t *Thread, a []uint64) uint64 {
			b, ok := Lookup[*dataBuffer](&r.Handles, a[0])
			if !ok {
				return t.noDataBuffer("aclUpdateDataBuffer", a[0])
			}
			*b = dataBuffer{addr: a[1], size: a[2]}
			return 0
		},
		"aclGetDataBufferAddr":   get(func(b *dataBuffer) uint64 { return b.addr }),
		"aclGetDataBufferSize":   get(func(b *dataBuffer) uint64 { return uint64(uint32(b.size)) }), // C's result has 32 bits
		"aclGetDataBufferSizeV2": get(func(b *dataBuffer) uint64 { return b.size }),
	}
}

func (t *Thread) noDataBuffer(function string, handle uint64) uint64 {
	return t.Fail(invalidParam, "EH0001: %s: %#x is no data buffer, or it was destroyed", function, handle)
}
