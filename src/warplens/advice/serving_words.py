"""What to do about findings of served models, by engine; the names of options are those of the engines' own sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warplens.model.rule import Explanation

ANY: Final = "any"
SERVING_EXPLANATIONS: Final[Mapping[str, Explanation]] = {
    "WL601": Explanation(
        "The GPU waits between passes of a served model",
        "Between the last GPU event of one forward pass and the first of the next the GPU is idle: the host schedules, "
        "samples, detokenises or prepares inputs. The gain is that of the step without the host's time in these gaps, "
        "where it can be simulated, else all of them. Gaps longer than {pause_passes:g} passes are a server without "
        "requests and do not count. Reported from {pass_gap_percent:g} % of the time of at least {least_passes:g} "
        "passes; these gaps are then in no finding on launches.",
    ),
    "WL602": Explanation(
        "Graphs are padded",
        "A graph is captured for a batch size and replayed for smaller batches; the rest is computed for nothing. The "
        "gain is the unused share of these passes' GPU time. It is a bound: kernels that wait for memory take as long "
        "for a smaller batch. Sizes are known where the mark has them or the graph is joined with its capture. "
        "Reported from {padding_percent:g} % of the GPU time.",
    ),
    "WL603": Explanation(
        "Prompts make tokens wait",
        "While a prompt is processed, alone or in the same pass, requests that generate get no token. The gain is the "
        "time that they wait so, averaged over all passes; it is a bound, and the work itself remains: smaller chunks "
        "spread it over more tokens, other GPUs take it off this one. Reported when that is {blocking_percent:g} % of "
        "the time between tokens and p99 is {slow_token_ratio:g} times the median.",
    ),
    "WL604": Explanation(
        "Attention of decode is below the memory's bandwidth",
        "A pass that generates reads the keys and values of every request once: attention then takes the time of that "
        "reading. The gain is the attention's time above it, a bound. Cache bytes are known where attention's sizes "
        "are. Reported below {slow_cache_percent:g} % of what the memory reaches, from {attention_percent:g} % of the "
        "GPU time of decode.",
    ),
    "WL605": Explanation(
        "Logits and the choice of tokens take long",
        "After the layers, logits of the whole vocabulary are computed, processed and sampled. The gain is the time of "
        "it all, a bound. Logits are counted where modules or Python frames are recorded, else only ops that choose. "
        "Reported from {sampling_percent:g} % of the GPU time of decode.",
    ),
    "WL606": Explanation(
        "Collectives are exposed in decode",
        "With tensor parallelism every layer of a pass waits for its all-reduces, whose messages are small in decode: "
        "they take their latency. The gain is the exposed time, a bound. Reported from "
        "{decode_communication_percent:g} % of the time of decode, instead of WL105.",
    ),
    "WL607": Explanation(
        "Changing number formats takes long in decode",
        "Activations are quantised for fp8, int8 or fp4 products by kernels of their own, and read and written once "
        "more. The gain is their time, a bound: fused into the norm or activation before them they cost almost "
        "nothing. Reported from {quantization_percent:g} % of the GPU time of decode.",
    ),
}
SERVING_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "WL601": {ANY: "prepare the next pass while the GPU works on this one, replay passes as graphs, and move "
                   "detokenisation and streaming off the thread that launches"},
    "WL601 vLLM": {ANY: "--async-scheduling prepares the next pass while this one runs; do not serve with "
                        "--enforce-eager; --stream-interval sends tokens less often"},
    "WL601 SGLang": {ANY: "keep the overlap scheduler (no --disable-overlap-schedule); --num-continuous-decode-steps "
                          "and --stream-interval let the host do less per token"},
    "WL602": {ANY: "capture graphs for the batch sizes that occur"},
    "WL602 vLLM": {ANY: "add the batch sizes that occur to --cudagraph-capture-sizes"},
    "WL602 SGLang": {ANY: "add the batch sizes that occur to --cuda-graph-bs"},
    "WL603": {ANY: "process prompts in smaller chunks together with decode, or on other GPUs"},
    "WL603 vLLM": {ANY: "smaller chunks: lower --max-num-batched-tokens, --long-prefill-token-threshold; or prefill on "
                        "other instances (--kv-transfer-config)"},
    "WL603 SGLang": {ANY: "smaller chunks: --chunked-prefill-size, together with decode: --enable-mixed-chunk; or "
                          "prefill on other instances (--disaggregation-mode)"},
    "WL604": {ANY: "use an attention kernel that splits long sequences over the whole GPU (flash-decoding, "
                   "FlashInfer), or a smaller cache (fp8)"},
    "WL604 vLLM": {ANY: "try another --attention-backend; --kv-cache-dtype fp8 halves the bytes"},
    "WL604 SGLang": {ANY: "try another --decode-attention-backend; --kv-cache-dtype fp8_e5m2 halves the bytes"},
    "WL605": {ANY: "sample on the GPU in one kernel, compute logits only for the last tokens, split the vocabulary "
                   "over the ranks"},
    "WL605 vLLM": {ANY: "VLLM_USE_FLASHINFER_SAMPLER=1 samples in one kernel; penalties, logprobs and top-p of single "
                        "requests cost every pass"},
    "WL605 SGLang": {ANY: "--sampling-backend flashinfer samples in one kernel; penalties, logprobs and top-p of "
                          "single requests cost every pass"},
    "WL606": {ANY: "use one-shot or multicast all-reduces for small messages, fuse them with the norm that follows, or "
                   "fewer ranks per replica"},
    "WL606 vLLM": {ANY: "keep the custom all-reduce (no --disable-custom-all-reduce); fuse_allreduce_rms in the "
                        "pass_config of --compilation-config; fewer ranks per replica"},
    "WL606 SGLang": {ANY: "keep the custom all-reduce (no --disable-custom-all-reduce); "
                          "--enable-flashinfer-allreduce-fusion; fewer ranks per replica"},
    "WL607": {ANY: "fuse it into the norm or activation before the product"},
    "WL607 vLLM": {ANY: "fuse_norm_quant and fuse_act_quant in the pass_config of --compilation-config"},
}  # fmt: skip
