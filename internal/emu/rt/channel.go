package rt

// channel is an acltdtChannelHandle: a queue that datasets go through.
type channel struct {
	name   string
	device *Device
	queue  *queue
}

// channelFunctions: the channels with a capacity are queues of the host. Those without one feed
// operators of the AI CPU, which the emulator has not.
func (r *Runtime) channelFunctions() table {
	return table{
		"acltdtCreateChannel": func(t *Thread, _ []uint64) uint64 {
			t.Fail(queueUnsupported, "EH0005: acltdtCreateChannel: the emulator has no operators that take data from such a channel; use acltdtCreateChannelWithCapacity")
			return 0
		},
		"acltdtCreateChannelWithCapacity": r.createChannel,
		"acltdtDestroyChannel":            r.destroyChannel,
		"acltdtStopChannel":               r.stopChannel,
		"acltdtCleanChannel":              r.cleanChannel,
		"acltdtQueryChannelSize":          r.channelSize,
		"acltdtSendTensor":                r.sendTensor,
		"acltdtReceiveTensor":             r.receiveTensor,
	}
}

func (r *Runtime) createChannel(t *Thread, a []uint64) uint64 {
	const function = "acltdtCreateChannelWithCapacity"
	if a[1] == 0 {
		t.null(function, "name")
		return 0
	}
	d, code := r.device(t, int32(a[0]))
	if code != 0 {
		return 0
	}
	name := CString(a[1])
	if len(name) >= queueNameSize {
		t.Fail(invalidParam, "EH0001: %s: the name has %d bytes, %d are possible", function, len(name), queueNameSize-1)
		return 0
	}
	if d.opened() == nil {
		t.Fail(paramInvalid, "EE1003: %s: device %d is not in use; call aclrtSetDevice first", function, d.id)
		return 0
	}
	q := r.newQueue(t, function, d.id, name, uint32(min(a[2], 1<<32-1)))
	if q == nil {
		return 0
	}
	return r.Handles.New(ChannelKind, &channel{name: name, device: d, queue: q})
}

func (r *Runtime) channel(t *Thread, function string, h uint64) (*channel, uint64) {
	return tdtObject[*channel](r, t, function, "handle", h)
}

func (r *Runtime) destroyChannel(t *Thread, a []uint64) uint64 {
	const function = "acltdtDestroyChannel"
	c, code := r.channel(t, function, a[0])
	if code != 0 {
		return code
	}
	if !r.queues.remove(c.queue) {
		return t.Fail(failure, "EH0001: %s: the queue of channel %s has routes; call acltdtUnbindQueueRoutes first", function, c.name)
	}
	r.Handles.Delete(a[0])
	return 0
}

// stopChannel has nothing to stop: no thread serves a channel.
func (r *Runtime) stopChannel(t *Thread, a []uint64) uint64 {
	_, code := r.channel(t, "acltdtStopChannel", a[0])
	return code
}

func (r *Runtime) cleanChannel(t *Thread, a []uint64) uint64 {
	c, code := r.channel(t, "acltdtCleanChannel", a[0])
	if code == 0 {
		r.queues.empty(c.queue)
	}
	return code
}

func (r *Runtime) channelSize(t *Thread, a []uint64) uint64 {
	const function = "acltdtQueryChannelSize"
	c, code := r.channel(t, function, a[0])
	if code != 0 {
		return code
	}
	if a[1] == 0 {
		return t.null(function, "size")
	}
	Write(a[1], uint64(r.queues.size(c.queue)))
	return 0
}

// throughChannel is what sending and receiving need.
func (r *Runtime) throughChannel(t *Thread, function string, a []uint64) (c *channel, s *dataset, w *wait, code uint64) {
	if c, code = r.channel(t, function, a[0]); code != 0 {
		return nil, nil, nil, code
	}
	if s, code = tdtObject[*dataset](r, t, function, "dataset", a[1]); code != 0 {
		return nil, nil, nil, code
	}
	w, ok := queueWait(int32(a[2]))
	if !ok {
		return nil, nil, nil, t.Fail(invalidParam, "EH0001: %s: timeout %d ms; use -1, 0 or more", function, int32(a[2]))
	}
	return c, s, w, 0
}

// sendTensor copies the data of the items before it returns.
func (r *Runtime) sendTensor(t *Thread, a []uint64) uint64 {
	const function = "acltdtSendTensor"
	c, s, w, code := r.throughChannel(t, function, a)
	if c == nil {
		return code
	}
	m := c.device.opened()
	if m == nil {
		return t.Fail(paramInvalid, "EE1003: %s: device %d was reset", function, c.device.id)
	}
	items, err := s.copies(r, m)
	if err != nil {
		return t.Fail(paramInvalid, "EE1003: %s: %v", function, err)
	}
	if !r.queues.put(c.queue, message{items: items}, w) {
		return t.Fail(queueFull, "EE1002: %s: channel %s stayed full for %d ms, or was destroyed", function, c.name, int32(a[2]))
	}
	return 0
}

// receiveTensor fills a dataset that is empty, or that it filled before.
func (r *Runtime) receiveTensor(t *Thread, a []uint64) uint64 {
	const function = "acltdtReceiveTensor"
	c, s, w, code := r.throughChannel(t, function, a)
	if c == nil {
		return code
	}
	if len(s.items) > 0 && !s.owns {
		return t.Fail(invalidParam, "EH0001: %s: the dataset has items of the program; use an empty one", function)
	}
	var m message
	if !r.queues.take(c.queue, func(first message) bool { m = first; return true }, w) {
		return t.Fail(queueEmpty, "EE1002: %s: channel %s stayed empty for %d ms, or was destroyed", function, c.name, int32(a[2]))
	}
	s.fill(r, m.items)
	return 0
}
