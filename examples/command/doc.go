// Package command is the command line that the programs of this folder share. To package flag it
// adds groups of flags, sample commands in the help text, and the refusal of stray arguments.
//
//	f := command.New(os.Stdout, "greet [flags]", "Greet says hello.",
//		"go run ./examples/greet -name Ada")
//	f.Group("Whom")
//	name := f.String("name", "you", "who is greeted")
//	f.Group("How")
//	loud := f.Bool("loud", false, "in capitals")
//	if err := f.Parse(os.Args[1:]); err != nil {
//		… // errors.Is(err, flag.ErrHelp) after -h
//	}
package command
