#include "cli/export/export_ffi.h"

#include <fmt/format.h>

namespace tilewright::cli {
namespace {

bool is_packed(const KernelDescription& d, const KernelParam& p) {
  for (const KernelFunction& pack : d.packs) {
    if (pack.params.back().name == p.name) return true;
  }
  return false;
}

FfiFunction kernel_function(const ExportedKernel& k) {
  const KernelDescription& d = k.kernel.description;
  FfiFunction f{export_name(*k.workload), {}, {}, true, {}};
  std::vector<size_t> places(d.main.params.size());  // of the kernel's operands in the function
  for (bool written : {false, true}) {
    for (size_t i = 0; i < d.main.params.size(); ++i) {
      const KernelParam& p = d.main.params[i];
      if ((p.role == ParamRole::Output) != written) continue;
      places[i] = f.params.size();
      f.params.push_back(&p);
      f.packed.push_back(is_packed(d, p));
    }
  }
  f.call = [name = f.name, places](const std::string& array) {
    std::string args;
    for (size_t place : places) {
      args += fmt::format("{}{}[{}]", args.empty() ? "" : ", ", array, place);
    }
    return fmt::format("tw_run_{}((void* const[]){{{}}}, dims)", name, args);
  };
  return f;
}

FfiFunction pack_function(const ExportedKernel& k, const KernelFunction& pack) {
  FfiFunction f{pack_name(k, pack), {}, {}, false, {}};
  for (size_t i = 0; i < pack.params.size(); ++i) {
    f.params.push_back(&pack.params[i]);
    f.packed.push_back(i + 1 == pack.params.size());
  }
  f.call = [name = f.name, count = f.params.size()](const std::string& array) {
    std::string args;
    for (size_t i = 0; i < count; ++i) {
      args += fmt::format("{}{}[{}]", i == 0 ? "" : ", ", array, i);
    }
    return fmt::format("{}({})", name, args);
  };
  return f;
}

}  // namespace

std::vector<FfiFunction> ffi_functions(const ExportedKernel& k) {
  std::vector<FfiFunction> functions{kernel_function(k)};
  for (const KernelFunction& pack : k.kernel.description.packs) {
    functions.push_back(pack_function(k, pack));
  }
  return functions;
}

std::vector<std::string> c_dims(const FfiFunction& f, const ExportedKernel& k) {
  std::vector<std::string> names;
  if (!f.dynamic) return names;
  for (const std::string& name : k.kernel.description.dims) names.push_back(c_name(name));
  return names;
}

std::string read_dims(const FfiFunction& f, const ExportedKernel& k,
                      const std::function<std::string(size_t operand, size_t axis)>& size,
                      const std::function<std::string(const std::string& message)>& error) {
  std::string text;
  const std::vector<std::string> names = c_dims(f, k);
  for (size_t v = 0; v < names.size(); ++v) {
    std::string from = "0";
    for (size_t i = 0; i < f.params.size() && from == "0"; ++i) {
      for (size_t a = 0; a < f.params[i]->shape.size(); ++a) {
        if (f.packed[i] || f.params[i]->shape[a].as_dimension() != static_cast<int>(v)) continue;
        from = size(i, a);
        break;
      }
    }
    const auto& dim = k.workload->dims[v];
    const std::string message =
        fmt::format("expected {} from {} to {}", k.kernel.description.dims[v], dim.min, dim.max);
    text += fmt::format(
        "  const int64_t {0} = {1};\n  if ({0} < {2} || {0} > {3}) {{\n    return {4};\n  }}\n",
        names[v], from, dim.min, dim.max, error(message));
  }
  return text;
}

std::string bytes_text(const KernelParam& p, const std::vector<std::string>& dims) {
  std::string count = "1";
  for (const KernelExtent& e : p.shape) count += fmt::format(" * (int64_t)({})", e.to_c(dims));
  return fmt::format("({} * {} + 7) / 8", count, bits_of(p.elem));
}

}  // namespace tilewright::cli
