// The output of code generation for the runtime: source text, and a description of its functions.
// The description travels with the compiled artifact into the database, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/arith/size_facts.h"
#include "ir/stmt.h"
#include "kernel/kernel_extent.h"

namespace tilewright {

struct KernelParam {
  std::string name;  // the operand's name; a packed weight keeps the name of its packed buffer
  ElemType elem;
  std::vector<KernelExtent> shape;
  ParamRole role;  // role of the workload's operand
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
  // Each takes weights as the user stores them, mostly one. Its last parameter is the packed
  // buffer, which has the name of the main function's parameter that it fills.
  std::vector<KernelFunction> packs;
  std::vector<std::string> dims;  // dynamic dimensions in order
  // Processor features that the code needs beyond those of its target, as cpu_features.h names
  // them.
  std::vector<std::string> features = {};
  // Facts of the main function; a description that an earlier version wrote has none.
  SizeFacts sizes = {};

  std::string to_json() const;
  // Throws Error that says what is missing.
  static KernelDescription from_json(const std::string& text);
};

enum class SourceLanguage : uint8_t { C, Cxx };

struct KernelSource {
  std::string code;                // a translation unit that includes no other text
  std::vector<std::string> flags;  // flags that the compiler needs: "-mavx512f", …
  KernelDescription description;
  SourceLanguage language = SourceLanguage::C;
};

}  // namespace tilewright
