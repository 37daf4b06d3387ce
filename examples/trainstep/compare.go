package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"strings"
)

// compare draws the losses of two logs as SVG, and reports how far they are apart; of two folders of
// checkpoints it reports how far the weights are apart.
func compare(a, b string, picture, report io.Writer) error {
	for _, path := range []string{a, b} {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return compareWeights(a, b, report)
		}
	}
	first, err := readLog(a)
	if err != nil {
		return err
	}
	second, err := readLog(b)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(picture, drawLosses([]string{a, b}, [][]entry{first, second})); err != nil {
		return err
	}
	of, worst, at, common := map[int]float64{}, 0.0, 0, 0
	for _, e := range first {
		of[e.Step] = e.Loss
	}
	for _, e := range second {
		if loss, ok := of[e.Step]; ok {
			common++
			if d := math.Abs(loss - e.Loss); d >= worst {
				worst, at = d, e.Step
			}
		}
	}
	if common == 0 {
		_, err = fmt.Fprintln(report, "the logs have no step in common")
	} else {
		_, err = fmt.Fprintf(report, "%d steps in common; the losses differ by at most %.3g, at step %d\n", common, worst, at)
	}
	return err
}

// readLog reads the lines of a log. Of a step that a resumed run did again, the last line counts.
func readLog(path string) (entries []entry, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		for len(entries) > 0 && entries[len(entries)-1].Step >= e.Step {
			entries = entries[:len(entries)-1]
		}
		entries = append(entries, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s has no steps", path)
	}
	return entries, nil
}

// Sizes of the picture, in pixels.
const (
	pictureWidth, pictureHeight = 900, 480
	marginLeft, margin          = 70, 40
)

var colours = []string{"#1f6fb4", "#d1602a"}

// drawLosses draws a line for each log, with its name, and circles for the losses of held-out samples.
func drawLosses(names []string, logs [][]entry) string {
	lowX, highX, lowY, highY := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	each := func(f func(which int, step, loss float64, heldOut bool)) {
		for i, log := range logs {
			for _, e := range log {
				f(i, float64(e.Step), e.Loss, false)
				if e.EvalLoss != 0 {
					f(i, float64(e.Step), e.EvalLoss, true)
				}
			}
		}
	}
	each(func(_ int, step, loss float64, _ bool) {
		lowX, highX, lowY, highY = min(lowX, step), max(highX, step), min(lowY, loss), max(highY, loss)
	})
	x := func(step float64) float64 {
		return marginLeft + (step-lowX)/max(highX-lowX, 1)*(pictureWidth-marginLeft-margin)
	}
	y := func(loss float64) float64 {
		return pictureHeight - margin - (loss-lowY)/max(highY-lowY, 1e-9)*(pictureHeight-2*margin)
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", pictureWidth, pictureHeight)
	fmt.Fprintf(&s, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	for i := range 6 {
		loss, step := lowY+(highY-lowY)*float64(i)/5, lowX+(highX-lowX)*float64(i)/5
		fmt.Fprintf(&s, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", marginLeft, pictureWidth-margin, y(loss), y(loss))
		fmt.Fprintf(&s, `<text x="%d" y="%.1f" text-anchor="end">%.4g</text>`+"\n", marginLeft-8, y(loss)+4, loss)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d" text-anchor="middle">%.0f</text>`+"\n", x(step), pictureHeight-margin+18, step)
	}
	points := make([]string, len(logs))
	each(func(i int, step, loss float64, heldOut bool) {
		if heldOut {
			fmt.Fprintf(&s, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="none" stroke="%s"/>`+"\n", x(step), y(loss), colours[i])
			return
		}
		points[i] += fmt.Sprintf("%.1f,%.1f ", x(step), y(loss))
	})
	for i, p := range points {
		fmt.Fprintf(&s, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.TrimSpace(p), colours[i])
		fmt.Fprintf(&s, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", marginLeft+10, 18+16*i, colours[i], html.EscapeString(names[i]))
	}
	fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">loss by step; circles: held-out samples</text>`+"\n</svg>\n", pictureWidth-margin, 18)
	return s.String()
}
