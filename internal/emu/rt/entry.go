package rt

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"runtime"
	"strings"
	"time"
)

var identified = regexp.MustCompile(`(?s)^([EW][0-9A-Z]\d{4}): (.*)$`)

// entry gives an error text the form of CANN's: the process, the time, a title with the identifier that the text begins with,
// what to do, and a trace whose lines name places in the sources. skip is the number of functions between the one that
// failed and this one. The further lines of an inner error go to its trace. Only the titles of aclnn's identifiers are CANN's.
func entry(text string, skip int) string {
	m := identified.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	id, text := m[1], m[2]
	now := time.Now()
	head := fmt.Sprintf("[PID: %d] %s.%03d", os.Getpid(), now.Format("2006-01-02-15:04:05.000"), now.Nanosecond()/1000%1000)
	place := ""
	if counter, file, line, ok := runtime.Caller(skip + 1); ok {
		function := runtime.FuncForPC(counter).Name()
		place = fmt.Sprintf("[FUNC:%s][FILE:%s][LINE:%d]", function[strings.LastIndex(function, ".")+1:], path.Base(file), line)
	}
	const trace = "\n        TraceBack (most recent call last):\n        "
	if strings.HasSuffix(id, "9999") {
		first, rest, more := strings.Cut(text, "\n")
		if more {
			rest = trace + strings.ReplaceAll(strings.TrimSpace(rest), "\n", "\n        ")
		}
		return fmt.Sprintf("%s: Inner Error!\n%[1]s: %s %s%s%s", id, head, first, place, rest)
	}
	title, solution := "Execution_Error", "N/A"
	switch {
	case id == "EZ1001":
		title, solution = "AclNN_Parameter_Error", "correct the argument"
	case id == "EZ1007":
		title = "Invalid_Argument_Tensor_Input_Shape"
	case id == "EZ1011":
		title = "Invalid_Argument_Null_Pointer"
	case id == "EE1005" || id == "EE1006" || id == "EE1016":
		title = "Not_Supported"
	case strings.HasPrefix(id, "EE100"), strings.HasPrefix(id, "EH"), id == "EI0003":
		title, solution = "Invalid_Argument", "correct the argument"
	}
	return fmt.Sprintf("%s %s(%s): %s\n        Solution: %s%sthe call failed%s", head, title, id, strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "), solution, trace, place)
}
