package queue

import (
	"slices"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// describedRoute is a route as a program describes it, and its state.
type describedRoute struct {
	route
	status int32
}

// queueRoute is an acltdtQueueRoute.
type queueRoute struct {
	describedRoute
	handle rt.Handle
}

// routeList is an acltdtQueueRouteList.
type routeList struct {
	routes []describedRoute
	handle rt.Handle
}

// routeQuery is an acltdtQueueRouteQueryInfo; fields that are nil have not been set.
type routeQuery struct {
	handle   rt.Handle
	mode     *int32
	src, dst *uint32
}

func (r *Runtime) acltdtCreateQueueRoute(srcID, dstID uint32) rt.Handle {
	x := &queueRoute{describedRoute: describedRoute{route: route{srcID, dstID}}}
	x.handle = r.Handles.New(rt.QueueRouteKind, x)
	return x.handle
}

//npugen:decode acltdtQueueRoute
func (r *Runtime) queueRoute(t *rt.Thread, function, parameter string, h rt.Handle) (*queueRoute, rt.Code) {
	return tdtObject[*queueRoute](r, t, function, parameter, h)
}

func (r *Runtime) acltdtDestroyQueueRoute(route *queueRoute) rt.Code {
	r.Handles.Delete(route.handle)
	return 0
}

func (r *Runtime) acltdtGetQueueRouteParam(t *rt.Thread, route *queueRoute, kind int32, room uint64, paramRetSize rt.Out[uint64], param rt.Address) rt.Code {
	const function = "acltdtGetQueueRouteParam"
	a := answer{room, paramRetSize, param}
	switch kind {
	case int32(abi.ACL_TDT_QUEUE_ROUTE_SRC_UINT32):
		return give(t, function, a, route.src)
	case int32(abi.ACL_TDT_QUEUE_ROUTE_DST_UINT32):
		return give(t, function, a, route.dst)
	case int32(abi.ACL_TDT_QUEUE_ROUTE_STATUS_INT32):
		return give(t, function, a, route.status)
	default:
		return t.Fail(rt.InvalidParam, "EH0001: %s: parameter %d is unknown", function, kind)
	}
}

func (r *Runtime) acltdtCreateQueueRouteList() rt.Handle {
	list := new(routeList)
	list.handle = r.Handles.New(rt.QueueRouteListKind, list)
	return list.handle
}

//npugen:decode acltdtQueueRouteList
func (r *Runtime) routeList(t *rt.Thread, function string, h rt.Handle) (*routeList, rt.Code) {
	return tdtObject[*routeList](r, t, function, "routeList", h)
}

func (r *Runtime) acltdtDestroyQueueRouteList(routeList *routeList) rt.Code {
	r.Handles.Delete(routeList.handle)
	return 0
}

// acltdtAddQueueRoute copies the route.
func (r *Runtime) acltdtAddQueueRoute(routeList *routeList, route *queueRoute) rt.Code {
	routeList.routes = append(routeList.routes, route.describedRoute)
	return 0
}

func (r *Runtime) acltdtGetQueueRoute(t *rt.Thread, routeList *routeList, index uint64, route *queueRoute) rt.Code {
	if index >= uint64(len(routeList.routes)) {
		return t.Fail(rt.InvalidParam, "EH0001: acltdtGetQueueRoute: index %d, the list has %d routes", index, len(routeList.routes))
	}
	route.describedRoute = routeList.routes[index]
	return 0
}

func (r *Runtime) acltdtGetQueueRouteNum(t *rt.Thread, routeList rt.Handle) uint64 {
	list, code := r.routeList(t, "acltdtGetQueueRouteNum", routeList)
	if code != 0 {
		return 0
	}
	return uint64(len(list.routes))
}

// acltdtBindQueueRoutes binds each route of a list separately and stores the outcome in the status
// of the route.
func (r *Runtime) acltdtBindQueueRoutes(t *rt.Thread, qRouteList *routeList) rt.Code {
	return r.eachRoute(t, "acltdtBindQueueRoutes", qRouteList, func(device int, x *describedRoute) (refusal string) {
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

func (r *Runtime) acltdtUnbindQueueRoutes(t *rt.Thread, qRouteList *routeList) rt.Code {
	return r.eachRoute(t, "acltdtUnbindQueueRoutes", qRouteList, func(device int, x *describedRoute) (refusal string) {
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

// eachRoute calls do for every route of a list and continues after a refusal.
func (r *Runtime) eachRoute(t *rt.Thread, function string, list *routeList, do func(device int, x *describedRoute) (refusal string)) rt.Code {
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	r.queues.mu.Lock()
	defer r.queues.mu.Unlock()
	for i := range list.routes {
		x := &list.routes[i]
		if refusal := do(c.Device().ID(), x); refusal != "" {
			code = t.Fail(rt.Failure, "EH0001: %s: route %d from queue %d to %d: %s", function, i, x.src, x.dst, refusal)
		}
	}
	r.queues.forward()
	return code
}

// leads reports whether messages of one queue reach another. The caller holds q.mu.
func (q *queues) leads(from, to uint32) bool {
	return from == to || slices.ContainsFunc(q.routes, func(w route) bool { return w.src == from && q.leads(w.dst, to) })
}

func (r *Runtime) acltdtCreateQueueRouteQueryInfo() rt.Handle {
	x := new(routeQuery)
	x.handle = r.Handles.New(rt.QueueRouteQueryKind, x)
	return x.handle
}

//npugen:decode acltdtQueueRouteQueryInfo
func (r *Runtime) routeQuery(t *rt.Thread, function, parameter string, h rt.Handle) (*routeQuery, rt.Code) {
	return tdtObject[*routeQuery](r, t, function, parameter, h)
}

func (r *Runtime) acltdtDestroyQueueRouteQueryInfo(info *routeQuery) rt.Code {
	r.Handles.Delete(info.handle)
	return 0
}

func (r *Runtime) acltdtSetQueueRouteQueryInfo(t *rt.Thread, param *routeQuery, kind int32, size uint64, value rt.In[int32]) rt.Code {
	const function = "acltdtSetQueueRouteQueryInfo"
	if size != 4 {
		return t.Fail(rt.Failure, "EH0001: %s: len is %d; the values have 4 bytes", function, size)
	}
	v := value.Get()
	id := uint32(v)
	switch kind {
	case int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_MODE_ENUM):
		param.mode = &v
	case int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_SRC_ID_UINT32):
		param.src = &id
	case int32(abi.ACL_TDT_QUEUE_ROUTE_QUERY_DST_ID_UINT32):
		param.dst = &id
	default:
		return t.Fail(rt.InvalidParam, "EH0001: %s: parameter %d is unknown", function, kind)
	}
	return 0
}

// matcher returns the condition of the query, or nil when a field that its mode needs was not set.
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
		return func(route) bool { return false } // a bound route is never broken
	}
	return nil
}

// acltdtQueryQueueRoutes appends the matching routes to the list.
func (r *Runtime) acltdtQueryQueueRoutes(t *rt.Thread, queryInfo *routeQuery, qRouteList *routeList) rt.Code {
	matches := queryInfo.matcher()
	if matches == nil {
		return t.Fail(rt.InvalidParam, "EH0001: acltdtQueryQueueRoutes: set a known mode, and the queues that it matches by")
	}
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	r.queues.mu.Lock()
	defer r.queues.mu.Unlock()
	for _, w := range r.queues.routes {
		if matches(w) && r.queues.of(c.Device().ID(), w.src) != nil {
			qRouteList.routes = append(qRouteList.routes, describedRoute{w, int32(abi.ACL_TDT_QUEUE_ROUTE_BIND)})
		}
	}
	return 0
}
