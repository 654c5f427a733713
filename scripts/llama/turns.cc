// llama.cpp on one model: tokens a second and greedy text, as JSON. scripts/llama/bench starts it in turns.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

namespace {

constexpr const char* kUsage =
    "usage: llama-turns MODEL.gguf THREADS PROMPT TOKENS ROUNDS TEXT [--no-repack]\n"
    "       llama-turns --quantize IN.gguf OUT.gguf q4_0|q4_1|q8_0|q4_k|f16|bf16|f32\n"
    "Times a prompt of PROMPT tokens and TOKENS single ones behind it, ROUNDS times, and goes on "
    "greedily from TEXT.\n";

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "llama-turns: %s\n", why.c_str());
  std::exit(1);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void decode(llama_context* context, std::vector<llama_token> tokens) {
  if (llama_decode(context,
                   llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()))) != 0) {
    stop("llama_decode failed");
  }
}

void forget(llama_context* context) { llama_memory_clear(llama_get_memory(context), true); }

llama_token likeliest(llama_context* context, int vocabulary) {
  const float* logits = llama_get_logits_ith(context, -1);
  return static_cast<llama_token>(std::max_element(logits, logits + vocabulary) - logits);
}

void print(const char* name, const std::vector<double>& rates) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < rates.size(); ++i) std::printf("%s%.2f", i == 0 ? "" : ", ", rates[i]);
  std::printf("], ");
}

void print_text(llama_context* context, const llama_vocab* vocab, const std::string& text,
                int count) {
  std::vector<llama_token> tokens(text.size() + 8);
  const int32_t length = static_cast<int32_t>(tokens.size());
  tokens.resize(static_cast<size_t>(
      std::max(0, llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()),
                                 tokens.data(), length, true, true))));
  forget(context);
  decode(context, tokens);
  std::printf("\"text\": [");
  for (int i = 0; i < count; ++i) {
    const llama_token next = likeliest(context, llama_vocab_n_tokens(vocab));
    std::printf("%s%d", i == 0 ? "" : ", ", next);
    decode(context, {next});
  }
  std::printf("]");
}

int quantize(const char* in, const char* out, const std::string& type) {
  auto params = llama_model_quantize_default_params();
  params.allow_requantize = true;
  params.nthread = 2;
  const std::vector<std::pair<std::string, llama_ftype>> types = {
      {"q4_0", LLAMA_FTYPE_MOSTLY_Q4_0}, {"q4_1", LLAMA_FTYPE_MOSTLY_Q4_1},
      {"q8_0", LLAMA_FTYPE_MOSTLY_Q8_0}, {"q4_k", LLAMA_FTYPE_MOSTLY_Q4_K_M},
      {"f16", LLAMA_FTYPE_MOSTLY_F16},   {"bf16", LLAMA_FTYPE_MOSTLY_BF16},
      {"f32", LLAMA_FTYPE_ALL_F32}};
  for (const auto& [name, ftype] : types) {
    if (name != type) continue;
    params.ftype = ftype;
    return static_cast<int>(llama_model_quantize(in, out, &params));
  }
  stop("there is no type '" + type + "'");
}

}  // namespace

int main(int argc, char** argv) {
  llama_backend_init();
  ggml_backend_load_all();
  if (argc == 5 && std::strcmp(argv[1], "--quantize") == 0)
    return quantize(argv[2], argv[3], argv[4]);
  if (argc < 7) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  const int threads = std::atoi(argv[2]), prompt = std::atoi(argv[3]), count = std::atoi(argv[4]);
  auto of_model = llama_model_default_params();
  of_model.use_extra_bufts = argc < 8;
  llama_model* model = llama_model_load_from_file(argv[1], of_model);
  if (model == nullptr) stop("no model in " + std::string(argv[1]));
  auto of_context = llama_context_default_params();
  of_context.n_ctx = static_cast<uint32_t>(prompt + count + 128);
  of_context.n_batch = of_context.n_ubatch = 512;
  of_context.n_threads = of_context.n_threads_batch = threads;
  llama_context* context = llama_init_from_model(model, of_context);
  if (context == nullptr) stop("no context");
  const llama_vocab* vocab = llama_model_get_vocab(model);

  std::vector<llama_token> tokens(static_cast<size_t>(prompt));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<llama_token>(1000 + i * 37 % 5000);
  std::vector<double> prompts, steps;
  const int rounds = std::atoi(argv[5]);
  for (int round = -2; round < rounds; ++round) {  // the first two warm up
    forget(context);
    double begin = seconds();
    decode(context, tokens);
    llama_synchronize(context);
    if (round >= 0) prompts.push_back(prompt / (seconds() - begin));
    begin = seconds();
    for (int i = 0; i < count; ++i) decode(context, {tokens[static_cast<size_t>(i % prompt)]});
    llama_synchronize(context);
    if (round >= 0) steps.push_back(count / (seconds() - begin));
  }
  std::printf("{");
  print("prompt", prompts);
  print("decode", steps);
  print_text(context, vocab, argv[6], 48);
  std::printf("}\n");
  llama_free(context);
  llama_model_free(model);
  return 0;
}
