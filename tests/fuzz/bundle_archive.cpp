// SPDX-License-Identifier: Apache-2.0
// The archive of a bundle in a binary: refused by InvalidPlan, or files that are written as the same archive again. The
// bundle in it, compiled without lengths and for some: refused by name, or programs that the checker takes.
#include <string>
#include <vector>

#include "host_driver/compiler/compile.hpp"
#include "host_driver/spyrecode/file_archive.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace svp::compiler;
using svp::spyrecode::NamedFiles;

std::vector<std::uint64_t> take_lengths(fuzz::Input& input) {
  std::vector<std::uint64_t> lengths(input.below(6));
  for (std::uint64_t& length : lengths) {
    length = input.below(8) == 0 ? input.take<std::uint64_t>() : std::uint64_t{input.take<std::uint16_t>()} * 128;
  }
  return lengths;
}

// Texts with a zero behind each: bundle.mlir, then sdsc_0.json, …: changes of a text leave the archive one.
NamedFiles files_of(std::string_view texts) {
  NamedFiles files;
  for (unsigned number = 0; !texts.empty(); ++number) {
    const auto end = std::min(texts.find('\0'), texts.size());
    const std::string name = number == 0 ? kBundleFileName : "sdsc_" + std::to_string(number - 1) + ".json";
    files.emplace(name, texts.substr(0, end));
    texts.remove_prefix(std::min(end + 1, texts.size()));
  }
  return files;
}

std::vector<std::byte> archive_of(fuzz::Input& input) {
  if (input.below(2) == 0) {
    const auto rest = input.rest();
    return {rest.begin(), rest.end()};
  }
  return svp::spyrecode::write_archive(files_of(input.rest_as_text()));
}

void compile_for(const Bundle& bundle, const std::vector<std::uint64_t>& lengths) {
  try {
    const svp::DeviceProgram program = compile(bundle, {.lengths = lengths});
    fuzz::require(program.arguments().size() == bundle.text.parameters.size(), "an argument for each parameter");
    fuzz::require(lengths.empty() || lengths.size() == bundle.text.parameters.size(), "and as many lengths");
  } catch (const spyre::Error& refused) {
    fuzz::require(!refused.info().message.empty() && !refused.info().next_step.empty(),
                  "a refusal says what is wrong and the next step");
  }
}

}  // namespace

void fuzz::run(Input input) {
  const auto lengths = take_lengths(input);
  try {
    const auto archive = archive_of(input);
    const NamedFiles files = svp::spyrecode::read_archive(archive, "archive");
    const auto again = svp::spyrecode::write_archive(files);
    require(svp::spyrecode::read_archive(again, "archive") == files, "what is written is read as the same");
    const Bundle bundle = read_bundle(files);
    require(length_uses(bundle).size() == bundle.text.parameters.size(), "a use for each parameter");
    compile_for(bundle, {});
    compile_for(bundle, lengths);
  } catch (const InvalidPlan& refused) {
    require(!refused.field().empty() && !refused.info().next_step.empty(), "a refusal names a place and the next step");
  }
}
