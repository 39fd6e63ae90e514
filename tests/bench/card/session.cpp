// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/session.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace bench {

namespace {
constexpr const char* kHowToGetPeers = "install it with scripts/bootstrap --bench";
}

void Session::add(Row row) {
  fmt::print(stderr, "  {}\n", summary(row));
  report_.add(std::move(row));
}

svp::Context& Session::card() {
  if (!card_) {
    svp::ContextOptions options;
    options.card.emplace().cores = options_.cores;
    card_ = svp::Context::open(std::move(options));
  }
  return *card_;
}

OpenClPeer* Session::opencl() {
  if (!opencl_asked_) {
    opencl_asked_ = true;
    auto opened = OpenClPeer::open();
    if (opened) {
      opencl_ = *std::move(opened);
    } else {
      report_.note("PoCL is not measured: " + opened.error() + "; " + kHowToGetPeers);
    }
  }
  return opencl_.get();
}

BlasPeer* Session::blas() {
  if (!blas_asked_) {
    blas_asked_ = true;
    auto opened = BlasPeer::open();
    if (opened) {
      blas_ = *std::move(opened);
    } else {
      report_.note("OpenBLAS is not measured: " + opened.error() + "; " + kHowToGetPeers);
    }
  }
  return blas_.get();
}

}  // namespace bench
