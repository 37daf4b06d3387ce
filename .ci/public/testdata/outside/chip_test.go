package service_test

import (
	"testing"

	"github.com/goascend/cann/aclnn/chips"
)

// TestChips: a program can ask which chips take an operator before it runs on one.
func TestChips(t *testing.T) {
	chip, err := chips.Named("Ascend310P3")
	if err != nil {
		t.Fatal(err)
	}
	if op, public := chip.Operator("Abs"); !public || op.Missing || len(op.Types["self"]) == 0 {
		t.Fatal(op, public)
	}
	if _, err := chips.Named("Ascend1"); err == nil {
		t.Fatal("there is no such chip")
	}
}
