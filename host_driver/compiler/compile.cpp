// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/compile.hpp"

#include <array>
#include <cstdio>
#include <utility>

#include "host_driver/base/crc32c.hpp"
#include "host_driver/compiler/lowering.hpp"
#include "host_driver/compiler/program_refusal.hpp"
#include "host_driver/spyrecode/file_archive.hpp"
#include "host_driver/spyrecode/hcm.hpp"
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

std::string file_of(std::span<const std::byte> binary) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "bundle-%08x.bin", crc32c(0, binary));
  return name.data();
}

}  // namespace

DeviceProgram compile(const Bundle& bundle, const CompileOptions& options) {
  check_lengths(bundle, options.lengths);
  const std::vector<std::byte> bytes = write_program(lower(bundle, options.lengths));
  try {
    return {name_of_bundle(bundle), bytes};
  } catch (const InvalidArgument&) {
    refuse_program(bundle, bytes);
  }
}

SpyreCodeFiles spyre_code_of(const DeviceProgram& program, const BundleFiles* bundle) {
  SpyreCodeFiles files;
  const auto archive = bundle == nullptr ? std::vector<std::byte>{} : spyrecode::write_archive(*bundle);
  files.binary =
      spyrecode::write_program_binary({.program = program.bytes(), .name = program.name(), .archive = archive});
  files.binary_name = file_of(files.binary);
  const auto arguments = static_cast<std::uint32_t>(program.arguments().size());
  spyrecode::Hcm hcm;
  for (std::uint32_t i = 0; i < arguments; ++i) {
    hcm.inputs.push_back(i);
    hcm.symbols.push_back({.kind = wire::SymbolKind::Address, .input = i, .axis = 0});
  }
  const std::uint64_t correction = wire::correction_bytes(arguments);
  const std::uint64_t place = spyrecode::kProgramBase + correction;
  files.code.allocate_bytes = correction + files.binary.size();
  files.code.init.push_back({.file = files.binary_name, .dev_ptr = place, .size = files.binary.size()});
  files.code.exec.emplace_back(spyrecode::ComputeOnHost{
      .ohandle = "correction", .ihandle = {}, .size = correction, .ishape = {arguments}, .hcm = to_json(hcm)});
  files.code.exec.emplace_back(spyrecode::DataTransfer{.direction = spyrecode::TransferDirection::ToDevice,
                                                       .host_handle = "correction",
                                                       .dev_ptr = spyrecode::kProgramBase,
                                                       .size = correction});
  files.code.exec.emplace_back(spyrecode::ComputeOnDevice{.job_bin_ptr = place, .name = program.name()});
  return files;
}

void compile_directory(const std::filesystem::path& bundle, const std::filesystem::path& target) {
  BundleFiles sources;
  const Bundle read = read_bundle(bundle, sources);
  const SpyreCodeFiles files = spyre_code_of(compile(read), needs_lengths(read) ? &sources : nullptr);
  const std::string json = to_json(files.code);
  const std::array written{
      spyrecode::NamedBytes{.name = files.binary_name, .bytes = files.binary},
      spyrecode::NamedBytes{.name = spyrecode::kFileName, .bytes = std::as_bytes(std::span(json))}};
  spyrecode::write_files(target / kSpyreCodeFolder, written);
}

}  // namespace svp::compiler
