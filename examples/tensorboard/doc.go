// Package tensorboard writes the event files that TensorBoard shows.
//
//	w, err := tensorboard.Create(folder)
//	defer w.Close()
//	err = w.Write(step, time.Now(), map[string]float64{"loss": loss, "rate/tokens": rate})
//
// Only numbers are written (TensorBoard's scalars); no Go library for this is maintained. A file
// is a sequence of records, framed as TensorFlow's TFRecord files are, each an Event message of
// protocol buffers. A run that begins again in the same folder writes a file of its own, and
// TensorBoard drops what an earlier file has of the steps that are done again.
package tensorboard
