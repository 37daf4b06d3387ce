package replicas

// Suspend takes the replica whose first device this is out of service: its requests go on with another replica, or
// end with engine.ErrDevice. A nil reason puts it back.
func (s *Set) Suspend(device int, why error) {
	for _, r := range s.all {
		if r.device == device {
			r.Engine.Suspend(why)
		}
	}
}
