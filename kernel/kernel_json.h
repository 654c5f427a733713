// Shared parts of the JSON descriptions of kernels: checked fields, and parameters.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "kernel/kernel_source.h"

namespace tilewright::kernel_json {

// Throws Error: "kernel description: WHERE: WHAT".
[[noreturn]] void fail(const std::string& where, const std::string& what);

// The member `key` of `object` as a T; `where` names the object in the message. For the types that
// kernel_json.cc lists.
template <class T>
T field(const nlohmann::json& object, const std::string& where, const char* key);
// The member itself.
const nlohmann::json& member(const nlohmann::json& object, const std::string& where,
                             const char* key);
// A non-negative number.
int64_t size_field(const nlohmann::json& object, const std::string& where, const char* key);

nlohmann::json of_param(const KernelParam& param);
KernelParam param(const nlohmann::json& json, const std::string& where);
// {"steps": [[[step, first], …] per dimension], "accesses": 44, "proved": 41}
nlohmann::json of_sizes(const SizeFacts& sizes);
SizeFacts sizes(const nlohmann::json& json, size_t dims);
ElemType elem_field(const nlohmann::json& object, const std::string& where);

}  // namespace tilewright::kernel_json
