// Package acceptance holds which calls phase one of CANN's operators accepts: for each operator and
// chip the conditions under which it refuses its arguments, with the code, in CANN's order. The
// emulator reads it before an operator's own checks. It holds no signatures (package abi does) and
// evaluates nothing.
//
// The tables are made from the public sources of the operators by
//
//	go run ./internal/tools/phaseone ops-math=FOLDER@COMMIT ops-nn=FOLDER@COMMIT …
//
// with the folders of checked-out repositories. An operator is a line with its name and the number of
// refusals in its source that the extraction does not wholly understand, if any. It is followed by
// its rules, one to a line: the letters of the chips (a 910, b 910B, c 910_93, p 310P, n 950), the code
// (0 ends the checks, 1 as well and no kernel runs, 2 as 1 after a refusal that is not understood), and the
// condition as a prefix expression. Letters and a code that are those of the line before are left out, and so
// are the parentheses that the end of a line closes:
//
//	Abs
//	 abcpn 161001 (null self
//	  (null out
//	 bc 161002 (not (in (dt self) f64 f32 f16 i64 i32 i16 i8 u8 bool bf16 c64
//	 abcpn 161002 (ne (fmt self) (fmt out
//
// What the extraction cannot read in the sources is left out, so a rule never refuses what CANN
// accepts. Operators with closed sources have no rules; [SourceOf] distinguishes them.
//
// Not every chip has every operator. Where the checks in the source do not refuse a chip, [Lacks] returns
// what the public pages state; products.txt is made from them by `npugen pages`.
//
//	rules, err := acceptance.Rules("Abs", acceptance.ChipOf("Ascend910B1"))
package acceptance
