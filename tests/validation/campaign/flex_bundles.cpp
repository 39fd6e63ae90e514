// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/flex_bundles.hpp"

#include <cstddef>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "host_driver/compiler/compile.hpp"
#include "host_driver/spyrecode/directory.hpp"
#include "shared/units.hpp"

namespace svp::campaign {

namespace {

namespace fs = std::filesystem;

using nlohmann::ordered_json;
using ::test::BundleBuilder;
using ::test::BundleTensor;

constexpr std::size_t kMagicBytes = 8;  // of a binary

BundleTensor argument(unsigned number) {
  return {.order = {"mb", "out"}, .stick = "out", .base = "arg_" + std::to_string(number)};
}
BundleTensor scratchpad() { return {.order = {"mb", "out"}, .stick = "out", .offset = 4096}; }

void add_operation(BundleBuilder& builder, const char* op, const BundleTensor& a, const BundleTensor& b,
                   const BundleTensor& to) {
  builder.add({.op = op, .extents = {{"mb", 512}, {"out", 256}}, .tensors = {a, b, to}});
}

BundleBuilder of_one(unsigned arguments, const char* op, const BundleTensor& a, const BundleTensor& b,
                     const BundleTensor& to) {
  BundleBuilder builder(arguments);
  add_operation(builder, op, a, b, to);
  return builder;
}

BundleBuilder chain() {
  constexpr unsigned kOperations = 5;
  BundleBuilder builder(kOperations + 1);
  for (unsigned i = 0; i < kOperations; ++i) {
    add_operation(builder, "add", argument(i), argument(0), argument(i + 1));
  }
  return builder;
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Throws svp::Error.
void write(const fs::path& directory, const std::string& name, const std::string& text) {
  const spyrecode::NamedBytes file{.name = name, .bytes = std::as_bytes(std::span(text))};
  spyrecode::write_files(directory, {&file, 1});
}

ordered_json json_of(const fs::path& directory) { return ordered_json::parse(read(directory / spyrecode::kFileName)); }

// Of the plans that the compiler writes: allocate and one binary; host computation, its transfer, the computation.
ordered_json& binary_of(ordered_json& json) { return json.at("JobPreparationPlan").at(1).at("properties"); }
ordered_json& execution_of(ordered_json& json, std::size_t step) {
  return json.at("JobExecPlan").at(step).at("properties");
}
std::uint64_t sticks_of(ordered_json& json) {
  return std::stoull(binary_of(json).at("size").get<std::string>()) / wire::kStickBytes;
}

// From 1 to `end`, that one excluded.
std::uint64_t number_below(std::uint64_t end, std::mt19937_64& random) { return 1 + random() % (end - 1); }

}  // namespace

FlexBundles::FlexBundles() {
  add("chain", chain());
  add("leave", of_one(1, "add", argument(0), argument(0), scratchpad()));
  add("take", of_one(2, "add", scratchpad(), argument(0), argument(1)));
  add("sum", of_one(2, "add", argument(0), argument(0), argument(1)));
  add("product", of_one(2, "mul", argument(0), argument(0), argument(1)));
}

// As dxp_standalone does it.
void FlexBundles::add(const std::string& bundle, const BundleBuilder& builder) {
  compiler::BundleFiles files{{"bundle.mlir", builder.text()}};
  for (const auto& [name, json] : builder.files()) files.emplace(name, builder.read(name));
  const auto [known, is_new] = programs_.emplace(bundle, compiler::compile(compiler::read_bundle(files)));
  spyrecode::write_plan(path() / bundle, compiler::spyre_code_of(known->second));
}

std::string FlexBundles::text_of(const std::string& bundle, std::uint32_t operation) const {
  return programs_.at(bundle).describe_operation(operation);
}

void FlexBundles::copy_whole(const std::string& bundle, const std::string& copy) const {
  fs::remove_all(path() / copy);
  fs::copy(path() / bundle, path() / copy);
}

void FlexBundles::copy_with_inverted_bit(const std::string& bundle, const std::string& copy,
                                         std::mt19937_64& random) const {
  copy_whole(bundle, copy);
  ordered_json json = json_of(path() / copy);
  const std::string name = binary_of(json).at("init_bin_file");
  std::string bytes = read(path() / copy / name);
  const std::uint64_t bit = random() % ((bytes.size() - kMagicBytes) * 8);
  char& damaged = bytes[kMagicBytes + bit / 8];
  damaged = static_cast<char>(static_cast<unsigned char>(damaged) ^ 1U << bit % 8);
  write(path() / copy, name, bytes);
}

void FlexBundles::copy_with_cut_binary(const std::string& bundle, const std::string& copy,
                                       std::mt19937_64& random) const {
  copy_whole(bundle, copy);
  ordered_json json = json_of(path() / copy);
  binary_of(json)["size"] = std::to_string(number_below(sticks_of(json), random) * wire::kStickBytes);
  write(path() / copy, spyrecode::kFileName, json.dump());
}

void FlexBundles::copy_with_other_letter(const std::string& bundle, const std::string& copy,
                                         std::mt19937_64& random) const {
  copy_whole(bundle, copy);
  ordered_json json = json_of(path() / copy);
  ordered_json& symbols = execution_of(json, 0).at("hcm").at("symbols");
  ordered_json& kind = symbols.at(random() % symbols.size()).at("kind");
  std::string text = kind;
  text.at(random() % text.size()) ^= 1;
  kind = text;
  write(path() / copy, spyrecode::kFileName, json.dump());
}

void FlexBundles::copy_with_other_entry(const std::string& bundle, const std::string& copy,
                                        std::mt19937_64& random) const {
  copy_whole(bundle, copy);
  ordered_json json = json_of(path() / copy);
  ordered_json& entry = execution_of(json, 2).at("job_bin_ptr");
  const std::uint64_t behind = number_below(sticks_of(json), random) * wire::kStickBytes;
  entry = std::to_string(std::stoull(entry.get<std::string>()) + behind);
  write(path() / copy, spyrecode::kFileName, json.dump());
}

bool FlexBundles::differ(const std::string& bundle, const std::string& copy) const {
  for (const auto& file : fs::directory_iterator(path() / bundle)) {
    if (read(file.path()) != read(path() / copy / file.path().filename())) return true;
  }
  return false;
}

}  // namespace svp::campaign
