"""A run as one object (chapter 15): `RunConfig`, the presets, and the run that continues a
trained model."""
from dataclasses import asdict, dataclass, replace
from pathlib import Path
import yaml
from .checkpoint import check_model_size, find_model
from .decoding import SearchConfig
from .hub import open_model, open_record
from .model import TransformerConfig
from .optimizer import paper_lr
from .prepare import DataConfig
from .support.core import (
    InputError, check_choice, check_names, check_types, find_in, untrusted)
from .training import TrainingConfig

SECTIONS = dict(model=TransformerConfig, data=DataConfig, training=TrainingConfig,
                search=SearchConfig)

@dataclass(frozen=True)
class RunConfig:
    "All that determines a run, except its folder and whatever else the caller passes in"
    model: TransformerConfig # before the tokenizer is trained, `vocab_size` is a maximum
    data: DataConfig
    training: TrainingConfig
    search: SearchConfig = SearchConfig()

    def __post_init__(self): # raises `InputError`; each section has checked its own fields
        check_model_size(replace(self.model, vocab_size=1)) # the tokenizer has its limit

    def to_dict(self)->dict[str,dict]: # fields by section
        model = asdict(self.model)
        del model['vocab_size']
        derived = self.model.d_model / self.model.n_heads
        for name in ('d_k', 'd_v'):
            if model[name] == derived: model[name] = None
        return dict(model=model, data=asdict(self.data), training=asdict(self.training),
                    search=asdict(self.search))

    @classmethod
    def from_dict(cls, sections:dict[str,dict])->'RunConfig': # what `to_dict` returned
        "Raises `InputError` if a value makes no sense"
        data = DataConfig(**sections['data'])
        training = TrainingConfig(**sections['training'])
        search = SearchConfig(**sections.get('search', {})) # older runs do not have it
        try: model = TransformerConfig(data.vocab_size, **sections['model'])
        except ValueError as e: raise InputError(str(e)) from None
        return cls(model, data, training, search)

    def override(self, **options)->'RunConfig': # fields of any section
        "The same run with other values; raises `InputError` for an unknown name"
        sections = self.to_dict()
        names = [field for fields in sections.values() for field in fields]
        check_names(options, names, 'a field of a run')
        for name, value in options.items():
            owner = next(fields for fields in sections.values() if name in fields)
            owner[name] = value
        return RunConfig.from_dict(sections)

    def like(self, model:TransformerConfig)->'RunConfig': # of a trained model
        "The same run with the architecture and vocabulary size of `model`"
        data = replace(self.data, vocab_size=model.vocab_size)
        return replace(self, model=model, data=data)

    def to_yaml(self)->str: # for people to read, and for `tnb_train --config`
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

def _tiny()->RunConfig: # for small corpora and machines without a GPU
    data = DataConfig()
    return RunConfig(TransformerConfig.tiny(data.vocab_size), data, TrainingConfig())

def _modern()->RunConfig: # what differs from `tiny`: chapter 20's *together*
    return _tiny().override(
        norm='pre', norm_type='rmsnorm', activation='swiglu', positions='rotary',
        qk_norm=True, n_kv_heads=2, weight_decay=0.1)

def _gqa()->RunConfig: return _tiny().override(n_kv_heads=2)

def _base()->RunConfig:
    data = DataConfig(vocab_size=37_000, batch_tokens=25_000)
    model = TransformerConfig.base(data.vocab_size)
    training = TrainingConfig(
        max_steps=100_000, lr=paper_lr(4000, model.d_model, 4000), warmup_steps=4000,
        label_smoothing=0.1, valid_every=1000, save_every_minutes=10., average=5,
        weights='mean')
    return RunConfig(model, data, training)

def _big()->RunConfig: # what differs from `base`
    base = _base()
    model = TransformerConfig.big(base.data.vocab_size)
    lr = paper_lr(4000, model.d_model, 4000)
    training = replace(base.training, max_steps=300_000, lr=lr, average=20)
    return RunConfig(model, base.data, training)

PRESETS = dict(tiny=_tiny, modern=_modern, gqa=_gqa, base=_base, big=_big)

def preset(name:str # one of `PRESETS`
          )->RunConfig:
    "A complete run by name; raises `InputError` for an unknown name"
    check_choice('preset', name, PRESETS)
    return PRESETS[name]()

def load_search(folder:str|Path # model folder
               )->SearchConfig: # how its author wants it to be searched
    "Raises `InputError` if the settings cannot be used"
    stored = open_record(folder).get('search', {})
    with untrusted(find_model(folder)/'config.json'): return SearchConfig(**stored)

_OF_ITS_OWN_RUN = dict.fromkeys( # fields of when and where a run was made
    ('max_minutes', 'patience', 'valid_every_minutes', 'save_every_minutes', 'workers',
     'device')
    ) | dict(precision='auto', compile=False, weights='auto')
_OF_THE_MODEL = ('src_lang', 'tgt_lang', 'normalize', 'batch_tokens') # of its data

def _stored_run(folder:str|Path, model:TransformerConfig
               )->RunConfig: # how the model was trained, as far as the folder tells
    "Raises `InputError` if it tells what makes no sense"
    stored = find_in(open_record(folder), 'training', kind=dict) or {}
    if 'config' not in stored:
        lr = paper_lr(4000, model.d_model, 4000)
        search = asdict(load_search(folder))
        return preset('tiny').override(lr=lr, **search).like(model)
    with untrusted(Path(folder)/'config.json'):
        for name, kind in SECTIONS.items():
            check_types(kind, stored['config'].get(name, {}))
        run = RunConfig.from_dict(stored['config'])
    data = DataConfig(**{name: getattr(run.data, name) for name in _OF_THE_MODEL})
    n_steps = find_in(stored, 'result', 'step', kind=int) or run.training.max_steps
    run = replace(run, data=data).like(model)
    return run.override(max_steps=n_steps, decay_steps=None)

def fine_tuning(init:str|Path, # model folder
                **options      # fields of the run that should differ
               )->RunConfig:
    "A run that continues a trained model: a tenth of its learning rate and of its steps"
    init = find_model(init)
    model, _ = open_model(init)
    start = _stored_run(init, model.config)
    max_steps = options.get('max_steps') or max(20, start.training.max_steps // 10)
    warmup_steps = max(1, max_steps // 20)
    every = max(1, min(max_steps // 20, 1000))
    schedule = dict(
        max_steps=max_steps, lr=start.training.lr / 10, warmup_steps=warmup_steps,
        decay_steps=max(max_steps, warmup_steps + 1), valid_every=every, save_every=every,
        average=5, **_OF_ITS_OWN_RUN)
    if options.get('data'): schedule |= dict(src_lang=None, tgt_lang=None) # the folder's
    return start.override(**schedule | options)
