// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/plan_writer.hpp"

#include <array>
#include <cstdio>
#include <span>
#include <utility>

#include "host_driver/base/crc32c.hpp"
#include "host_driver/spyrecode/directory.hpp"
#include "shared/units.hpp"

namespace svp::spyrecode {

namespace {

constexpr const char* kCorrectionHandle = "correction";

std::string file_name(const std::string& file, std::span<const std::byte> bytes) {
  std::array<char, 1 + 8 + 1> checksum{};
  std::snprintf(checksum.data(), checksum.size(), "-%08x", crc32c(0, bytes));
  return file + checksum.data() + ".bin";
}

}  // namespace

void write_plan(const std::filesystem::path& directory, const PlanFiles& plan) {
  const std::string json = to_json(plan.code);
  std::vector<NamedBytes> files;
  files.reserve(plan.binaries.size() + 1);
  for (const PlanFiles::Binary& binary : plan.binaries) files.push_back({.name = binary.name, .bytes = binary.bytes});
  files.push_back({.name = kFileName, .bytes = std::as_bytes(std::span(json))});
  write_files(directory, files);
}

Hcm hcm_of_addresses(std::uint32_t arguments) {
  Hcm hcm;
  for (std::uint32_t i = 0; i < arguments; ++i) {
    hcm.inputs.push_back(i);
    hcm.symbols.push_back({.kind = wire::SymbolKind::Address, .input = i, .axis = 0});
  }
  return hcm;
}

void PlanWriter::add_correction(const Hcm& hcm, std::uint64_t bytes) {
  SpyreCode& code = files_.code;
  code.exec.emplace_back(ComputeOnHost{
      .ohandle = kCorrectionHandle, .ihandle = {}, .size = bytes, .ishape = {hcm.inputs.size()}, .hcm = to_json(hcm)});
  code.exec.emplace_back(DataTransfer{.direction = TransferDirection::ToDevice,
                                      .host_handle = kCorrectionHandle,
                                      .dev_ptr = kProgramBase,
                                      .size = bytes});
  code.allocate_bytes = wire::align_up(bytes, kAddressAlignment);
}

void PlanWriter::add_compute(const std::string& name, const std::string& file, std::vector<std::byte> binary) {
  files_.code.exec.emplace_back(ComputeOnDevice{.job_bin_ptr = place(file, std::move(binary)), .name = name});
}

std::uint64_t PlanWriter::place(const std::string& file, std::vector<std::byte> binary) {
  SpyreCode& code = files_.code;
  for (std::size_t i = 0; i < files_.binaries.size(); ++i) {
    if (files_.binaries[i].bytes == binary) return code.init[i].dev_ptr;
  }
  const std::uint64_t address = kProgramBase + code.allocate_bytes;
  std::string name = file_name(file, binary);
  code.init.push_back({.file = name, .dev_ptr = address, .size = binary.size()});
  code.allocate_bytes += binary.size();
  files_.binaries.push_back({.name = std::move(name), .bytes = std::move(binary)});
  return address;
}

}  // namespace svp::spyrecode
