"""序列标注用的 Transformer 编码器: 一个中文教程的写法, 用句子长度代替掩码。

`model(x, lengths)`: x 为 (B, T) 的词编号, lengths 为每句的真实长度, 输出 (B, T, 标签数)。
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Sinusoid(nn.Module):
    pe: Tensor

    def __init__(self, embed: int, pad_size: int) -> None:
        super().__init__()
        pe = torch.tensor(
            [[pos / (10000.0 ** (i // 2 * 2.0 / embed)) for i in range(embed)] for pos in range(pad_size)]
        )
        pe[:, 0::2] = torch.sin(pe[:, 0::2])
        pe[:, 1::2] = torch.cos(pe[:, 1::2])
        self.register_buffer("pe", pe, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.size(1)]


class MultiHead(nn.Module):
    def __init__(self, dim_model: int, num_head: int) -> None:
        super().__init__()
        self.num_head = num_head
        self.dim_head = dim_model // num_head
        self.fc_Q = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc_K = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc_V = nn.Linear(dim_model, num_head * self.dim_head)
        self.fc = nn.Linear(num_head * self.dim_head, dim_model)
        self.layer_norm = nn.LayerNorm(dim_model)

    def split(self, x: Tensor) -> Tensor:
        # (B, T, D) -> (B*H, T, D/H), 同一句的各个头排在一起
        b, t, _ = x.shape
        x = x.view(b, t, self.num_head, self.dim_head).transpose(1, 2)
        return x.reshape(b * self.num_head, t, self.dim_head)

    def merge(self, x: Tensor, b: int) -> Tensor:
        x = x.view(b, self.num_head, -1, self.dim_head).transpose(1, 2)
        return x.reshape(b, -1, self.num_head * self.dim_head)

    def scale(self) -> float:
        return self.dim_head**-0.5  # 缩放因子

    def head_mask(self, mask: Tensor) -> Tensor:
        # 每个头都用同一句的掩码
        return mask.repeat_interleave(self.num_head, dim=0)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        Q, K, V = self.split(self.fc_Q(x)), self.split(self.fc_K(x)), self.split(self.fc_V(x))
        attention = torch.matmul(Q, K.permute(0, 2, 1)) * self.scale()
        attention = attention.masked_fill(self.head_mask(mask)[:, None, :], -1e9)
        context = torch.matmul(F.softmax(attention, dim=-1), V)
        return self.layer_norm(self.fc(self.merge(context, x.size(0))) + x)  # 残差连接


class PositionwiseFeedForward(nn.Module):
    def __init__(self, dim_model: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim_model, hidden)
        self.fc2 = nn.Linear(hidden, dim_model)
        self.layer_norm = nn.LayerNorm(dim_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer_norm(self.fc2(F.relu(self.fc1(x))) + x)


class TagEncoder(nn.Module):
    attention_class: type[MultiHead] = MultiHead

    def __init__(self, dim_model: int, num_head: int, hidden: int) -> None:
        super().__init__()
        self.attention = self.attention_class(dim_model, num_head)
        self.feed_forward = PositionwiseFeedForward(dim_model, hidden)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.feed_forward(self.attention(x, mask))


class Tagger(nn.Module):
    encoder_class: type[TagEncoder] = TagEncoder

    def __init__(self, n_vocab: int = 32, embed: int = 32, num_tags: int = 7) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_vocab, embed)
        self.postion_embedding = Sinusoid(embed, 64)
        self.encoders = self.copies(self.encoder_class(embed, 2, 64))
        self.fc1 = nn.Linear(embed, num_tags)

    def copies(self, encoder: TagEncoder) -> nn.ModuleList:
        return nn.ModuleList([copy.deepcopy(encoder) for _ in range(2)])

    def padding(self, length: int, lengths: Tensor) -> Tensor:
        # True 表示填充
        return torch.arange(length, device=lengths.device)[None, :] >= lengths[:, None]

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = self.padding(x.size(1), lengths)
        out = self.postion_embedding(self.embedding(x))
        for encoder in self.encoders:
            out = encoder(out, mask)
        return self.fc1(out)


# 错误的写法 ----------------------------------------------------------------------------------------------------


class ViewedHeads(MultiHead):
    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0) * self.num_head, -1, self.dim_head)

    def merge(self, x: Tensor, b: int) -> Tensor:
        return x.view(b, -1, self.num_head * self.dim_head)


class ViewedHeadsEncoder(TagEncoder):
    attention_class = ViewedHeads


class ViewedHeadsTagger(Tagger):
    encoder_class = ViewedHeadsEncoder


class RepeatedMask(MultiHead):
    def head_mask(self, mask: Tensor) -> Tensor:
        return mask.repeat(self.num_head, 1)


class RepeatedMaskEncoder(TagEncoder):
    attention_class = RepeatedMask


class RepeatedMaskTagger(Tagger):
    encoder_class = RepeatedMaskEncoder


class ScaledTheWrongWay(MultiHead):
    def scale(self) -> float:
        return self.dim_head**0.5  # 缩放因子


class ScaledTheWrongWayEncoder(TagEncoder):
    attention_class = ScaledTheWrongWay


class ScaledTheWrongWayTagger(Tagger):
    encoder_class = ScaledTheWrongWayEncoder


class LengthsByOneTagger(Tagger):
    def padding(self, length: int, lengths: Tensor) -> Tensor:
        return torch.arange(length, device=lengths.device)[None, :] > lengths[:, None]


class NotCopiedTagger(Tagger):
    def copies(self, encoder: TagEncoder) -> nn.ModuleList:
        return nn.ModuleList([encoder for _ in range(2)])
