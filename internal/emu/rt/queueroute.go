package rt

import (
	"slices"

	"github.com/goascend/cann/internal/abi"
)

// queueRoute is an acltdtQueueRoute: a route as a program describes it, and its state.
type queueRoute struct {
	route
	status int32
}

// routeQuery is an acltdtQueueRouteQueryInfo; what is nil was not set.
type routeQuery struct {
	mode     *int32
	src, dst *uint32
}

func (r *Runtime) queueRouteFunctions() table {
	return table{
		"acltdtCreateQueueRoute":   r.createQueueRoute,
		"acltdtGetQueueRouteParam": r.queueRouteParam,
		"acltdtAddQueueRoute":      r.addQueueRoute,
		"acltdtGetQueueRoute":      r.getQueueRoute,
		"acltdtGetQueueRouteNum":   r.queueRouteNum,
		"acltdtBindQueueRoutes":    r.bindQueueRoutes,
		"acltdtUnbindQueueRoutes":  r.unbindQueueRoutes,
		"acltdtQueryQueueRoutes":   r.queryQueueRoutes,
		"acltdtCreateQueueRouteList": func(*Thread, []uint64) uint64 {
			return r.Handles.New(QueueRouteListKind, &[]queueRoute{})
		},
		"acltdtCreateQueueRouteQueryInfo": func(*Thread, []uint64) uint64 {
			return r.Handles.New(QueueRouteQueryKind, &routeQuery{})
		},
		"acltdtSetQueueRouteQueryInfo": r.setRouteQuery,
		"acltdtDestroyQueueRoute": func(t *Thread, a []uint64) uint64 {
			return destroyed[*queueRoute](r, t, "acltdtDestroyQueueRoute", "route", a[0])
		},
		"acltdtDestroyQueueRouteList": func(t *Thread, a []uint64) uint64 {
			return destroyed[*[]queueRoute](r, t, "acltdtDestroyQueueRouteList", "routeList", a[0])
		},
		"acltdtDestroyQueueRouteQueryInfo": func(t *Thread, a []uint64) uint64 {
			return destroyed[*routeQuery](r, t, "acltdtDestroyQueueRouteQueryInfo", "info", a[0])
		},
	}
}

func (r *Runtime) createQueueRoute(_ *Thread, a []uint64) uint64 {
	return r.Handles.New(QueueRouteKind, &queueRoute{route: route{uint32(a[0]), uint32(a[1])}})
}

func (r *Runtime) queueRouteParam(t *Thread, a []uint64) uint64 {
	const function = "acltdtGetQueueRouteParam"
	x, code := tdtObject[*queueRoute](r, t, function, "route", a[0])
	if code != 0 {
		return code
	}
	switch kind := int32(a[1]); kind {
	case int32(abi.ACL_TDT_QUEUE_ROUTE_SRC_UINT32):
		return answer(t, function, a[2], a[3], a[4], x.src)
	case int32(abi.ACL_TDT_QUEUE_ROUTE_DST_UINT32):
		return answer(t, function, a[2], a[3], a[4], x.dst)
	case int32(abi.ACL_TDT_QUEUE_ROUTE_STATUS_INT32):
		return answer(t, function, a[2], a[3], a[4], x.status)
	default:
		return t.Fail(invalidParam, "EH0001: %s: parameter %d is unknown", function, kind)
	}
}

func (r *Runtime) routeList(t *Thread, function string, h uint64) (*[]queueRoute, uint64) {
	return tdtObject[*[]queueRoute](r, t, function, "routeList", h)
}

// addQueueRoute copies the route.
func (r *Runtime) addQueueRoute(t *Thread, a []uint64) uint64 {
	const function = "acltdtAddQueueRoute"
	list, code := r.routeList(t, function, a[0])
	if code != 0 {
		return code
	}
	x, code := tdtObject[*queueRoute](r, t, function, "route", a[1])
	if code == 0 {
		*list = append(*list, *x)
	}
	return code
}

func (r *Runtime) getQueueRoute(t *Thread, a []uint64) uint64 {
	const function = "acltdtGetQueueRoute"
	list, code := r.routeList(t, function, a[0])
	if code != 0 {
		return code
	}
	x, code := tdtObject[*queueRoute](r, t, function, "route", a[2])
	if code != 0 {
		return code
	}
	if a[1] >= uint64(len(*list)) {
		return t.Fail(invalidParam, "EH0001: %s: index %d, the list has %d routes", function, a[1], len(*list))
	}
	*x = (*list)[a[1]]
	return 0
}

func (r *Runtime) queueRouteNum(t *Thread, a []uint64) uint64 {
	list, code := r.routeList(t, "acltdtGetQueueRouteNum", a[0])
	if code != 0 {
		return 0
	}
	return uint64(len(*list))
}

// bindQueueRoutes binds each route of a list by itself; its status says what came of it.
func (r *Runtime) bindQueueRoutes(t *Thread, a []uint64) uint64 {
	const function = "acltdtBindQueueRoutes"
	return r.eachRoute(t, function, a[0], func(device int, x *queueRoute) (refusal string) {
		q := &r.queues
		switch {
		case q.of(device, x.src) == nil || q.of(device, x.dst) == nil:
			refusal = "there are no such queues on the device"
		case q.leads(x.dst, x.src):
			refusal = "routes must not form a circle"
		}
		if refusal != "" {
			x.status = int32(abi.ACL_TDT_QUEUE_ROUTE_BIND_ABNORMAL)
			return refusal
		}
		if !slices.Contains(q.routes, x.route) {
			q.routes = append(q.routes, x.route)
		}
		x.status = int32(abi.ACL_TDT_QUEUE_ROUTE_BIND)
		return ""
	})
}

func (r *Runtime) unbindQueueRoutes(t *Thread, a []uint64) uint64 {
	const function = "acltdtUnbindQueueRoutes"
	return r.eachRoute(t, function, a[0], func(device int, x *queueRoute) (refusal string) {
		q := &r.queues
		i := slices.Index(q.routes, x.route)
		x.status = int32(abi.ACL_TDT_QUEUE_ROUTE_UNBIND)
		if i < 0 || q.of(device, x.src) == nil {
			return "it is not bound on the device"
		}
		q.routes = slices.Delete(q.routes, i, i+1)
		return ""
	})
}

// eachRoute does something with every route of a list; a refusal does not keep it from the next.
func (r *Runtime) eachRoute(t *Thread, function string, h uint64, do func(device int, x *queueRoute) (refusal string)) uint64 {
	list, code := r.routeList(t, function, h)
	if code != 0 {
		return code
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	r.queues.mu.Lock()
	defer r.queues.mu.Unlock()
	for i := range *list {
		x := &(*list)[i]
		if refusal := do(c.device.id, x); refusal != "" {
			code = t.Fail(failure, "EH0001: %s: route %d from queue %d to %d: %s", function, i, x.src, x.dst, refusal)
		}
	}
	r.queues.forward()
	return code
}

// leads reports whether messages of one queue get to another. q.mu is held.
func (q *queues) leads(from, to uint32) bool {
	return from == to || slices.ContainsFunc(q.routes, func(w route) bool { return w.src == from && q.leads(w.dst, to) })
}

func (r *Runtime) setRouteQuery(t *Thread, a []uint64) uint64 {
	const function = "acltdtSetQueueRouteQueryInfo"
	x, code := tdtObject[*routeQuery](r, t, function, "param", a[0])
	if code != 0 {
		return code
	}
	if a[3] == 0 {
		return t.null(function, "value")
	}
	if a[2] != 4 {
		return t.Fail(failure, "EH0001: %s: len is %d; the values have 4 bytes", function, a[2])
	}
	switch kind := int32(a[1]); kind {
	case int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM):
		x.mode = &Read[int32](a[3], 1)[0]
	case int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32):
		x.src = &Read[uint32](a[3], 1)[0]
	case int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_DST_ID_UINT32):
		x.dst = &Read[uint32](a[3], 1)[0]
	default:
		return t.Fail(invalidParam, "EH0001: %s: parameter %d is unknown", function, kind)
	}
	return 0
}

// matcher is the query's condition; nil when something that its mode needs was not set.
func (x *routeQuery) matcher() func(route) bool {
	if x.mode == nil {
		return nil
	}
	switch mode := *x.mode; {
	case mode == int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC) && x.src != nil:
		return func(w route) bool { return w.src == *x.src }
	case mode == int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_DST) && x.dst != nil:
		return func(w route) bool { return w.dst == *x.dst }
	case mode == int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC_AND_DST) && x.src != nil && x.dst != nil:
		return func(w route) bool { return w == route{*x.src, *x.dst} }
	case mode == int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_ABNORMAL):
		return func(route) bool { return false } // a route that was bound works
	}
	return nil
}

// queryQueueRoutes adds the routes that match to the list.
func (r *Runtime) queryQueueRoutes(t *Thread, a []uint64) uint64 {
	const function = "acltdtQueryQueueRoutes"
	x, code := tdtObject[*routeQuery](r, t, function, "queryInfo", a[0])
	if code != 0 {
		return code
	}
	list, code := r.routeList(t, function, a[1])
	if code != 0 {
		return code
	}
	matches := x.matcher()
	if matches == nil {
		return t.Fail(invalidParam, "EH0001: %s: set a known mode, and the queues that it matches by", function)
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	r.queues.mu.Lock()
	defer r.queues.mu.Unlock()
	for _, w := range r.queues.routes {
		if matches(w) && r.queues.of(c.device.id, w.src) != nil {
			*list = append(*list, queueRoute{w, int32(abi.ACL_TDT_QUEUE_ROUTE_BIND)})
		}
	}
	return 0
}
