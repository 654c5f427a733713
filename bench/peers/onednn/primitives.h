// Building blocks of the oneDNN peer: element types, memories, a problem of one primitive, and the
// operators that the other files make.
#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/peers/problem.h"

namespace tilewright::peers {

using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;
using Arguments = std::unordered_map<int, dnnl::memory>;

dnnl::engine& cpu_engine();
// oneDNN's name for an element type of a spec; throws Unsupported for one it does not have.
Type type_named(const std::string& name);
int64_t bytes_of(const dnnl::memory::desc& desc);
// Strides of a dense tensor whose axes lie in memory in `order`, outermost first.
Dims strides_in_order(const Dims& dims, const std::vector<int>& order);
dnnl::memory::desc dense(const Dims& dims, Type type);
dnnl::memory::desc dense(const Dims& dims, Type type, const std::vector<int>& order);

struct Types {
  Type in, out;
};
Types types_of(const PeerSpec& spec);

// A primitive with its arguments, executed to its end by run.
class PrimitiveProblem : public Problem {
 public:
  PrimitiveProblem(int threads, dnnl::stream stream)
      : stream_(std::move(stream)), threads_(threads) {}
  void run() override;

  // The operand as it lies in the caller's memory.
  void add(int argument, const dnnl::memory::desc& desc, const Operands& operands,
           const std::string& name);
  // A constant operand, laid out once as the primitive wants it.
  void add_constant(int argument, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted,
                    const Operands& operands, const std::string& name);
  // A constant operand of elements of 4 bits, which reorders take as f32 only: `type` says how to
  // read it.
  void add_nibbles(int argument, Type type, const dnnl::memory::desc& wanted,
                   const Operands& operands, const std::string& name);
  // Forgets the operands that were added.
  void clear() { arguments_.clear(); }
  // Says more about what runs, after set.
  void remark(const std::string& text) {
    set_implementation(implementation() + ", " + text, is_reference());
  }
  // Finishes: the primitive of `plan` runs on the arguments that were added.
  template <class Primitive>
  void set(const typename Primitive::primitive_desc& plan) {
    set(Primitive(plan), plan.scratchpad_desc(), plan.impl_info_str());
  }

 private:
  void set(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
           const std::string& implementation);

  dnnl::stream stream_;
  dnnl::primitive primitive_;
  Arguments arguments_;
  int threads_;
};

// The epilogue's steps after a bias as post-operations; the caller adds the operands it names.
struct Epilogue {
  bool bias = false;
  dnnl::primitive_attr attributes;
  std::vector<int> addend_arguments;  // of `add`: the operand D
};
Epilogue epilogue_of(const PeerSpec& spec, const dnnl::memory::desc& output);

// A weight in a form of its own, and the operands that tell what its elements are worth.
struct StoredWeight {
  struct Parameter {
    int argument;
    const char* name;
    dnnl::memory::desc given, wanted;
  };
  Type type = Type::undef;
  std::vector<Parameter> parameters;
  bool nibbles = false;
};
bool stores_weight(const PeerSpec& spec);
// How oneDNN may be asked for such a product: which of these its optimized code takes differs with
// version, chip and types, and the layout that it chooses itself (`any`) may be one that only its
// reference code takes.
struct WeightForm {
  dnnl::memory::format_tag layout = dnnl::memory::format_tag::any;
  std::string scale;  // the type in which it gets the scales
};
std::vector<WeightForm> weight_forms(const PeerSpec& spec);
// Sets the attributes of a product with such a weight; throws Unsupported for forms that this
// version does not have.
StoredWeight stored_weight(const PeerSpec& spec, const WeightForm& form,
                           dnnl::primitive_attr& attributes);

using ProblemPtr = std::unique_ptr<PrimitiveProblem>;
void make_matmul(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem);
void make_convolution(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem);
void make_rowwise(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem);
void make_elementwise(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem);

}  // namespace tilewright::peers
