// SPDX-License-Identifier: Apache-2.0
#include "tests/support/flex/prepared_plan.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/support/flex/launches.hpp"

namespace flex_test {
namespace {

std::vector<std::uint8_t> bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::uint64_t number(const nlohmann::json& text) { return std::stoull(text.get<std::string>()); }

void run_on_host(flex::RuntimeStream& stream, std::function<void(void*)> callback) {
  struct Guard {
    flex::HostCallbackParams* params;
    ~Guard() { flex::destroyHostCallbackParams(params); }
  } guard{flex::createHostCallbackParams(std::move(callback), nullptr, false)};
  stream.launchOperationHostCallback(guard.params);
}

}  // namespace

PreparedPlan::PreparedPlan(const std::filesystem::path& directory, flex::FlexAllocator& allocator,
                           flex::RuntimeStream& stream)
    : allocator_(allocator) {
  const auto text = bytes_of(directory / "spyrecode.json");
  const auto json = nlohmann::json::parse(text);
  for (const auto& entry : json.at("JobPreparationPlan")) {
    const auto& properties = entry.at("properties");
    if (entry.at("command") == "Allocate") {
      program_ = allocator.allocate(number(properties.at("size")), program_memory());
      continue;
    }
    binaries_.push_back(bytes_of(directory / properties.at("init_bin_file").get<std::string>()));
    const auto device =
        part_of(program_, number(properties.at("dev_ptr")) - flex::PROG_OFFSET_BASE, number(properties.at("size")));
    send(stream, binaries_.back().data(), device.total_size(), device);
  }
  for (const auto& entry : json.at("JobExecPlan")) {
    const auto& properties = entry.at("properties");
    if (entry.at("command") == "ComputeOnHost") {
      auto& buffer = buffers_[properties.at("ohandle")];
      buffer.resize(number(properties.at("size")));
      HostCompute host{std::make_shared<Hcm>(), {}, &buffer};
      host.hcm->importJsonStr(properties.at("hcm").dump());
      deeptools::buildFastHcmPatchPlan(host.fast, *host.hcm);
      steps_.emplace_back(std::move(host));
    } else if (entry.at("command") == "DataTransfer") {
      steps_.emplace_back(Transfer{
          &buffers_.at(properties.at("host_handle")),
          part_of(program_, number(properties.at("dev_ptr")) - flex::PROG_OFFSET_BASE, number(properties.at("size")))});
    } else {
      steps_.emplace_back(Compute{number(properties.at("job_bin_ptr")) - flex::PROG_OFFSET_BASE,
                                  properties.at("name").get<std::string>()});
    }
  }
}

void PreparedPlan::launch(flex::RuntimeStream& stream, const Tensors& tensors, Addresses addresses) const {
  const bool bound = addresses == Addresses::Bound;
  std::vector<std::int64_t> dmvas;
  if (!bound) {
    for (const auto* tensor : tensors) {
      dmvas.push_back(static_cast<std::int64_t>(allocator_.compositeAddressToDmva(*tensor)));
    }
  }
  for (const auto& step : steps_) {
    if (const auto* host = std::get_if<HostCompute>(&step)) {
      if (bound) continue;
      run_on_host(stream, [&](void*) {
        if (addresses == Addresses::Regular) {
          deeptools::processComputeOnHostCommand(*host->hcm, host->buffer->data(), &dmvas);
        } else {
          deeptools::processComputeOnHostCommandFast(host->fast, *host->hcm, host->buffer->data(), dmvas.data(),
                                                     dmvas.size());
        }
      });
    } else if (const auto* transfer = std::get_if<Transfer>(&step)) {
      if (!bound) send(stream, transfer->buffer->data(), transfer->device.total_size(), transfer->device);
    } else {
      const auto& compute = std::get<Compute>(step);
      const flex::CompositeAddress program(program_.chunks()[0]);
      struct Guard {
        flex::ComputeParams* params;
        ~Guard() { flex::destroyComputeParams(params); }
      } guard{flex::createComputeParams(&program, bound ? tensors : Tensors{}, compute.name, compute.bootstrap_offset)};
      stream.launchOperationCompute(guard.params);
    }
  }
}

}  // namespace flex_test
