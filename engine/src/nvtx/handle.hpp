#pragma once

#include <nvtx3/nvToolsExt.h>

#include <cstdint>

#include "sluice/nvtx/domain.hpp"

namespace sluice::nvtx {

class Domain::Handle {
 public:
  Handle() : domain_(nvtxDomainCreateA("sluice")) {}
  ~Handle() { nvtxDomainDestroy(domain_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  [[nodiscard]] nvtxDomainHandle_t get() const noexcept { return domain_; }

 private:
  nvtxDomainHandle_t domain_;
};

/// @param message registered with the event's domain
[[nodiscard]] inline nvtxEventAttributes_t event_of(Category category, nvtxStringHandle_t message,
                                                    std::uint32_t color) noexcept {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = static_cast<std::uint32_t>(category);
  event.colorType = NVTX_COLOR_ARGB;
  event.color = color;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = message;
  return event;
}

inline void set_payload(nvtxEventAttributes_t& event, std::uint64_t payload) noexcept {
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = payload;
}

}  // namespace sluice::nvtx
