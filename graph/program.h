// Programs of files: the text of a graph, with constants in files beside it.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace tilewright::graph {

// Whether a file that is called so and has these bytes is a program: its name ends in .tg, or its first line says
// graph "NAME".
bool is_program(std::string_view bytes, const std::string& path);

// Reads a program, verified, with the data of all its constants. `from "FILE"` names a safetensors file, in which a
// tensor has the constant's name or the one that follows, or an .npy file. FILE is a path within the program's
// folder. A tensor has the type and the shape of its constant; elements of fewer than 8 bits lie in bytes, U8, the
// lowest bits first. Throws GraphError and FileError that begin with `path` and name the line, column and byte of
// the text, or the node, the constant and its file.
Graph read_program(const std::string& path);

}  // namespace tilewright::graph
