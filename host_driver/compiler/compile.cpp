// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/compile.hpp"

#include "host_driver/compiler/archived_files.hpp"
#include "host_driver/compiler/lowering.hpp"
#include "host_driver/compiler/pass_forward_copies.hpp"
#include "host_driver/compiler/program_refusal.hpp"
#include "host_driver/spyrecode/file_archive.hpp"
#include "host_driver/spyrecode/program_binary.hpp"
#include "shared/kernel_abi.hpp"

namespace svp::compiler {

namespace {

// Of the first operation, and how many others there are: "0_add", "0_max+4".
std::string name_of_bundle(const Bundle& bundle) {
  if (bundle.sdsc.empty()) return "empty";
  std::string name = bundle.sdsc[0].name;
  if (bundle.sdsc.size() > 1) name += "+" + std::to_string(bundle.sdsc.size() - 1);
  return name;
}

}  // namespace

DeviceProgram compile(const Bundle& bundle, const CompileOptions& options) {
  check_lengths(bundle, options.lengths);
  TensorProgram lowered = lower(bundle, options.lengths);
  if (options.passes.forward_copies) forward_copies(lowered);
  const std::vector<std::byte> bytes = write_program(lowered);
  try {
    return {name_of_bundle(bundle), bytes};
  } catch (const InvalidArgument&) {
    refuse_program(bundle, bytes);
  }
}

spyrecode::PlanFiles spyre_code_of(const DeviceProgram& program, const BundleFiles* bundle) {
  const auto archive = bundle == nullptr ? std::vector<std::byte>{} : spyrecode::write_archive(*bundle);
  const auto arguments = static_cast<std::uint32_t>(program.arguments().size());
  spyrecode::PlanWriter writer;
  writer.add_correction(spyrecode::hcm_of_addresses(arguments), wire::correction_bytes(arguments));
  writer.add_compute(
      program.name(), "bundle",
      spyrecode::write_program_binary({.program = program.bytes(), .name = program.name(), .archive = archive}));
  return writer.take();
}

void compile_directory(const std::filesystem::path& bundle, const std::filesystem::path& target, const Passes& passes) {
  BundleFiles sources;
  const Bundle read = read_bundle(bundle, sources);
  const bool brings_bundle = needs_lengths(read);
  if (brings_bundle) sources = archived_files(sources);
  const DeviceProgram program = compile(read, {.lengths = {}, .passes = passes});
  spyrecode::write_plan(target / kSpyreCodeFolder, spyre_code_of(program, brings_bundle ? &sources : nullptr));
}

}  // namespace svp::compiler
