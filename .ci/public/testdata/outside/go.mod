// A user's module, for the test that the public packages can be used from one.
module example.com/service

go 1.26.0
