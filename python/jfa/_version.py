"""The version of the package; the project's CMakeLists.txt says the same."""

VERSION = "0.1.0"
