package rt

// CurrentDevice returns the device of the thread's current context, or -1 and the code which means
// that the thread has no context.
func (r *Runtime) CurrentDevice(t *Thread) (device int, code int32) {
	c, word := r.Current(t)
	if c == nil {
		return -1, int32(word)
	}
	return c.device.id, 0
}

// DeviceCount returns the number of devices that this process sees.
func (r *Runtime) DeviceCount() int { return len(r.devices) }

// Memory returns the memory of a device, or nil while the device is not in use.
func (r *Runtime) Memory(device int) *Memory {
	d := r.devices[device]
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.memory
}

// PhysicalDevice returns the number that the machine gives to a device that this process sees.
func (r *Runtime) PhysicalDevice(device int) int { return r.devices[device].physical }
