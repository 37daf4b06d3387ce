package ccl

import (
	"net"
	"os"
	"strconv"
)

// listenHost returns the address at which this process listens: HCCL_IF_IP, or loopback.
func listenHost() string {
	if host := os.Getenv("HCCL_IF_IP"); host != "" {
		return host
	}
	return "127.0.0.1"
}

// defaultPort is HCCL's first port unless HCCL_IF_BASE_PORT is set.
const defaultPort = 60000

func basePort() (int, error) {
	base := os.Getenv("HCCL_IF_BASE_PORT")
	if base == "" {
		return defaultPort, nil
	}
	first, err := strconv.Atoi(base)
	if err != nil || first < 1024 || first > 65520 {
		return 0, refuse(badParameter, "EI0001: HCCL_IF_BASE_PORT=%q: must be a port from 1024 to 65520", base)
	}
	return first, nil
}

// listenAnywhere listens on any free port, for the links of a rank.
func listenAnywhere() (net.Listener, error) {
	host := listenHost()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, refuse(unavailable, "EI0019: no port on %s (HCCL_IF_IP): %v", host, err)
	}
	return listener, nil
}

// listenRoot opens the port of a root: the first free one of 32 from HCCL_IF_BASE_PORT on if
// that is set, else any free port.
func listenRoot() (net.Listener, error) {
	if os.Getenv("HCCL_IF_BASE_PORT") == "" {
		return listenAnywhere()
	}
	host := listenHost()
	first, err := basePort()
	if err != nil {
		return nil, err
	}
	const ports = 32
	last := min(first+ports, 1<<16)
	for port := first; port < last; port++ {
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return listener, nil
		}
	}
	return nil, refuse(unavailable, "EI0019: ports %d to %d on %s are taken (HCCL_IF_BASE_PORT): %v", first, last-1, host, err)
}
