// What code generation hands to the runtime: source text and the description of its functions. The
// description travels with the compiled artifact into the database, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/kernel_extent.h"
#include "ir/size_facts.h"
#include "ir/stmt.h"

namespace tilewright {

struct KernelParam {
  std::string name;  // the operand's name; a packed weight keeps the name of its packed buffer
  ElemType elem;
  std::vector<KernelExtent> shape;
  ParamRole role;  // of the workload's operand
};

// One exported function of the shared object.
struct KernelFunction {
  std::string symbol;
  std::vector<KernelParam> params;
  int64_t workspace_bytes = 0;             // shared by all threads
  int64_t workspace_bytes_per_thread = 0;  // times the number of threads
};

struct KernelDescription {
  int abi = 1;
  KernelFunction main;
  // Each takes weights as the user stores them, mostly one, and last the packed buffer, whose name is
  // the name of the main function's parameter that it fills.
  std::vector<KernelFunction> packs;
  std::vector<std::string> dims;  // dynamic dimensions in order
  // What the code needs of a processor beyond what its target has, as cpu_features.h names it.
  std::vector<std::string> features = {};
  // Of the main function; a description that an earlier version wrote has none.
  SizeFacts sizes = {};

  std::string to_json() const;
  // Throws Error that says what is missing.
  static KernelDescription from_json(const std::string& text);
};

enum class SourceLanguage : uint8_t { C, Cxx };

struct KernelSource {
  std::string code;                // a translation unit with no includes but its own text
  std::vector<std::string> flags;  // what the compiler must be told: "-mavx512f", …
  KernelDescription description;
  SourceLanguage language = SourceLanguage::C;
};

}  // namespace tilewright
