// SPDX-License-Identifier: Apache-2.0
// A SpyreCode directory (docs/spyrecode.md) through the runtime interface, as a framework prepares and launches one:
// program memory is allocated, binaries are sent to it, and every step of the plan becomes an operation of a stream.
#pragma once

#include <spyrecode-host-functions/fast_process_hcm.h>
#include <spyrecode-host-functions/processSpyreCodeArtifacts.h>
#include <filesystem>
#include <flex/flex.hpp>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace flex_test {

class PreparedPlan {
 public:
  using Tensors = std::vector<const flex::CompositeAddress*>;
  // How the addresses of the tensors reach the program.
  enum class Addresses {
    Fast,     // correction tensor, by the prepared patch plan
    Regular,  // correction tensor, from a vector of addresses
    Bound,    // with the computation; steps on the host are left out
  };

  PreparedPlan(const std::filesystem::path& directory, flex::FlexAllocator& allocator, flex::RuntimeStream& stream);

  // The computation of a plan.
  struct Compute {
    std::uint64_t bootstrap_offset;
    std::string name;
  };

  void launch(flex::RuntimeStream& stream, const Tensors& tensors, Addresses addresses) const;
  const flex::CompositeAddress& program() const { return program_; }
  // The last one, for whoever launches it himself.
  const Compute& computation() const { return std::get<Compute>(steps_.back()); }

 private:
  struct HostCompute {
    std::shared_ptr<Hcm> hcm;
    deeptools::FastHcmPatchPlan fast;
    std::vector<std::uint8_t>* buffer;
  };
  struct Transfer {
    std::vector<std::uint8_t>* buffer;
    flex::CompositeAddress device;
  };

  flex::FlexAllocator& allocator_;
  flex::CompositeAddress program_;
  std::list<std::vector<std::uint8_t>> binaries_;
  std::map<std::string, std::vector<std::uint8_t>> buffers_;
  std::vector<std::variant<HostCompute, Transfer, Compute>> steps_;
};

}  // namespace flex_test
