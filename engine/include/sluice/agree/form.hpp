#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "sluice/agree/group_agreement.hpp"
#include "sluice/agree/group_channel.hpp"
#include "sluice/agreement.hpp"

namespace sluice::agree {

/// The forms of agreement over a channel.
enum class Form : std::uint8_t { Leader, FirstPick, Bitmap };

inline constexpr std::array<Form, 3> kForms{Form::Leader, Form::FirstPick, Form::Bitmap};

/// `leader`, `first-pick` or `bitmap`.
[[nodiscard]] std::string_view name(Form form);
[[nodiscard]] std::optional<Form> form_named(std::string_view text);

[[nodiscard]] ChannelNeeds needs(Form form, const StageTasks& tasks);

/// One rank's end.
/// @param channel built for `needs(form, tasks)`; outlives the agreement, as does the clock
[[nodiscard]] std::unique_ptr<Agreement> make_agreement(Form form, const StageTasks& tasks,
                                                        GroupChannel& channel, const Clock& clock);

}  // namespace sluice::agree
