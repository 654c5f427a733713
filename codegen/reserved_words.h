// Words that no name in generated code may be.
#pragma once

#include <set>
#include <string>

namespace tilewright {

/// The keywords of C17 and C++20 with what GCC adds to them, the types and functions that kernels use
/// of the language's libraries and of CUDA, and the macros that compilers for Unix make of plain words.
const std::set<std::string>& reserved_words();

/// An identifier for what is called `name` in a program: letters, digits and underscores that begin
/// neither with a digit nor as the functions, types and macros of our preludes do ("tw_").
std::string identifier_of(const std::string& name);

}  // namespace tilewright
