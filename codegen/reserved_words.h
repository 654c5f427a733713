// Words that names in generated code must not be.
#pragma once

#include <set>
#include <string>

namespace tilewright {

/// The keywords of C17 and C++20 and GCC's additions to them. The list also has the types and
/// functions that kernels use of the language's libraries and of CUDA. It has the macros that
/// compilers for Unix make of plain words.
const std::set<std::string>& reserved_words();

/// An identifier for `name` of a program: letters, digits and underscores. It begins neither with a
/// digit nor as the functions, types and macros of our preludes do ("tw_", "TW_").
std::string identifier_of(const std::string& name);

}  // namespace tilewright
